"""Bench of the production method on the cached columns."""
import sys,os; sys.path.insert(0,os.path.join(os.path.dirname(os.path.abspath(__file__)))); 
from em import *
from stepcut.methods.stepcut.method import StepCut
from stepcut.methods.constraints import *
def ev(a):
    key,col,what,draws,seed=a
    rows,true,K,rate=col['rows'],col['true'],col['steps'],col['rate']; N=len(rows)
    t0=time.process_time(); base=StepCut(steps=K,rate=rate,seed=seed).fit(rows); t1=time.process_time()-t0
    out={'none':[strict(base.labels_,true,K),0,t1],'found':[strict(base.discovered_,true,K),0,0]}
    order=[np.random.default_rng(1000+d).permutation(N).tolist() for d in range(draws)]
    def go(kind,ids,rng,tg):
        cs=[None]*N
        for i in ids:
            cs[i]=Constraint(labels=true[i]) if kind=='f' else Constraint(clicks=tuple(clicks_of(true[i],rng))) if kind=='c' else Constraint(transcript=Transcript(tuple(transcript_of(true[i]))))
        m=StepCut(steps=K,rate=rate,seed=seed); m.start_from(base); m._calibrate=lambda *a: None; m.fit(rows,cs)
        return {i:m.labels_[i] for i in tg}
    for w in what:
        if w=='tA':
            r=go('t',range(N),None,range(N)); r=[r[i] for i in range(N)]; out[w]=[strict(r,true,K),named(r,true,K),0]; continue
        kind,n=('f',w) if w[0] not in 'c' else ('c',w[1:])
        if n=='all':
            r={}
            for i in (range(N) if N<=20 else range(0,N,3)): r|=go(kind,[j for j in range(N) if j!=i],np.random.default_rng(i),[i])
            ids=sorted(r); out[w]=[strict([r[i] for i in ids],[true[i] for i in ids],K),named([r[i] for i in ids],[true[i] for i in ids],K),0]
        else:
            acc=[]
            for d,od in enumerate(order):
                ids=od[:int(n)]; tg=[i for i in range(N) if i not in ids]; r=go(kind,ids,np.random.default_rng(50+d),tg)
                acc.append([strict([r[i] for i in tg],[true[i] for i in tg],K),named([r[i] for i in tg],[true[i] for i in tg],K),strict([base.labels_[i] for i in tg],[true[i] for i in tg],K)])
            out[w]=np.mean(acc,0).tolist()
    return key,out
if __name__=='__main__':
    from concurrent.futures import ProcessPoolExecutor
    d=load(); what=sys.argv[1].split(',') if sys.argv[1] else []; workers=int(sys.argv[2]); draws=int(sys.argv[3]); seeds=int(sys.argv[4]) if len(sys.argv)>4 else 1
    keys=sys.argv[5].split(',') if len(sys.argv)>5 else list(d)
    for seed in range(seeds):
        with ProcessPoolExecutor(workers) as ex: res=dict(ex.map(ev,[(k,d[k],what,draws,seed) for k in keys]))
        real=[k for k in res if k!='openpack']
        for w in next(iter(res.values())):
            print(seed,w,'all %.1f (%.1f) base %.1f'%tuple(np.mean([res[k][w] for k in real],0)),'chosen %.1f held %.1f'%(np.mean([res[k][w][0] for k in real if not d[k]['held']] or [0]),np.mean([res[k][w][0] for k in real if d[k]['held']] or [0])),{k:round(res[k][w][0],1) for k in res},flush=True)
