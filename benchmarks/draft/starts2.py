
from rst import *
from concurrent.futures import ProcessPoolExecutor
def one(a):
    k,c=a; v,sig=votes(c['rows'],c['rate'],c['steps'],{}); return k,dict(labels=[np.where(p.max(1)>0,p.argmax(1),-1) for p in v],probs=v,sigma=sig)
if __name__=='__main__':
    d=load()
    with ProcessPoolExecutor(14) as ex: out=dict(ex.map(one,d.items()))
    print(np.mean([strict(v['labels'],d[k]['true'],d[k]['steps']) for k,v in out.items() if k!='openpack']))
    pickle.dump(out,open(sys.argv[1],'wb'))
