from em import *
from dataclasses import replace
from stepcut.methods.stepcut.restarts import Search, choose_sigma
from stepcut.methods.stepcut.em import Joined
from stepcut.methods.stepcut.consensus import consensus, silhouette, majority, time_regularity, come_again
from stepcut.methods.stepcut.slow_features import slow_axes, project
def acf_time(videos):
    """Rows until the autocorrelation of the signal (without white noise) has fallen to half."""
    maxlag=int(min(len(v) for v in videos)//2); 
    lags=np.unique(np.r_[np.arange(1,min(20,maxlag)),np.geomspace(20,max(21,maxlag),40).astype(int)]); lags=lags[lags<maxlag]
    c=np.array([sum((v[:-l]*v[l:]).sum() for v in videos)/sum(len(v)-l for v in videos) for l in lags])
    c0=2*c[0]-c[1] if len(c)>1 else c[0]  # lag 0 without white noise
    below=np.flatnonzero(c<.5*c0)
    return float(lags[below[0]]) if len(below) else float(lags[-1]), c0
def fbk(ev,stay):
    z=np.zeros(0,np.int64); S=ev.shape[1]
    return fb(ev,np.arange(S),stay,(1-stay)/S,z,z,np.zeros(0),np.full(S,1/S),np.ones(S),np.ones(ev.shape,bool))
def em_iso(j,share,iters,o,shortest,stay):
    K=share.shape[1]; V=len(j.starts); bonus=np.zeros((V,K)); bins=np.minimum((j.times*BINS).astype(int),BINS-1)
    kern=np.exp(-((ntimes(BINS)[:,None]-j.times)**2)/(2*o['width']**2)); x2=None
    for _ in range(iters):
        once=share/np.maximum(j.total(share),shortest)[j.video]; wt=np.maximum(once.sum(0),1e-9)
        c=once.T@j.rows/wt[:,None]
        off=(share*np.maximum((j.rows**2).sum(1)[:,None]-2*j.rows@c.T+(c**2).sum(1),0)).sum()
        v=max(off/max(share.sum(),1e-9)/j.rows.shape[1],1e-6)
        if o['kde']:
            cl=kern@once; dens=BINS*cl/np.maximum(cl.sum(0),1e-9)
            lt=np.log((1-o['anytime'])*dens+o['anytime'])[bins]
        else:
            t=once.T@j.times/wt; lt=np.log((1-o['anytime'])*np.exp(-((j.times[:,None]-t)**2)/(2*o['width']**2))+o['anytime'])
        ev=(j.rows@c.T-.5*(c**2).sum(1))/v/o.get('itemp',1.0)+o['prior']*lt+bonus[j.video]
        llk=0.; parts=[]
        for e in j.split(ev):
            p,l=fbk(np.ascontiguousarray(e),stay); parts.append(p); llk+=l
        share=np.concatenate(parts)
        mass=j.total(share); wanted=np.maximum(mass.sum(1,keepdims=True),1)/K
        bonus+=o['balance']*np.log(wanted/(mass+.01*wanted)); np.clip(bonus,-o['most'],o['most'],out=bonus)
    return share,llk
RDEF=dict(width=.15,anytime=.05,balance=.2,most=3.,kde=1,prior=2.0,restarts=24,iters=12,select='all',gate=0,sigma='rule',cons=5,stay=0,timew=1.0,halve=2.0)
def votes(videos,rate,K,opts,seed=0):
    o={**RDEF,**opts}
    videos=[v[:,:64] for v in videos]
    if o['sigma']=='rule': sig=choose_sigma(videos,K,.7)
    elif o['sigma']=='acf': sig=o.get('acf',.5)*acf_time(videos)[0]
    elif o['sigma']=='acfmin': sig=min(np.median([len(v) for v in videos])/(4*K),o.get('acf',.5)*acf_time(videos)[0])
    s=Search(K,sig,seed,background=.7)
    if o.get('halve'):
        before=s.in_common(videos,s.probe_quickly(videos))
        while s.sigma/2>.75:
            t=replace(s,sigma=s.sigma/2); now=t.in_common(videos,t.probe_quickly(videos))
            if now<=o['halve']*before: break
            s,before=t,now
        sig=s.sigma
    axes,slow,light,views=s.look(videos); j=Joined.of(views)
    stay=o['stay'] if o['stay'] else 1-1/max(2.,np.median([len(v) for v in views])/K)
    if o['gate']:
        found=[]
        for st in s.starts(light,j,6,time=0.0):
            p,_=em_iso(j,st,o['iters'],{**o,'prior':0},s.shortest,stay); found.append(j.split(majority(p)))
        reg=0. if come_again(found,K,s.shortest) else float(np.mean([time_regularity(l,K,s.shortest) for l in found]))
        o['prior']*=float(np.clip((reg-.4)/.1,0,1))
    labs=[];sc=[]
    for st in s.starts(light,j,o['restarts'],time=o['timew']):
        p,l=em_iso(j,st,o['iters'],o,s.shortest,stay); labs.append(majority(p)); sc.append(l if o['select']=='ll' else silhouette(views,j.split(labs[-1]),K,s.shortest) if o['select']=='sil' else 0)
    n=len(labs); best=np.argsort(-np.array(sc),kind='stable')[:max(1,n//3 if o['select']!='all' else n)]
    v=consensus([labs[i] for i in best],K)
    per=j.split(v); full=[]
    for x,p in zip(videos,per): full.append(np.repeat(p,s.stride,0)[:len(x)])
    return full,sig
def none(col,ro,eo,seed=0):
    rows,true,K,rate=col['rows'],col['true'],col['steps'],col['rate']
    v,sig=votes(rows,rate,K,ro,seed); found=[np.where(p.max(1)>0,p.argmax(1),-1) for p in v]
    eo={**eo,'sigma0':sig}
    m=learn(rows,rate,K,found,[None]*len(rows),{'bg_pseudo':1.0,**eo})
    r=[hard(posterior(m,x),K) for x in rows]
    return strict(found,true,K),strict(r,true,K),sig,r
def toys():
    from scipy.ndimage import gaussian_filter1d as g
    out={}
    def make(name,walks,seed,noise,secs,K,rate=2.0):
        rng=np.random.default_rng(seed); looks=rng.normal(size=(K,64)); rows=[];true=[]
        for w in walks(rng):
            lab=np.repeat(w,np.maximum(1,rate*secs*rng.lognormal(0,.4,len(w))).astype(int))
            drift=g(rng.normal(size=(len(lab),64)),8,axis=0)*2.7
            x=looks[lab]+rng.normal(size=64)+noise*(rng.normal(size=drift.shape)+drift); rows.append(x-x.mean(0)); true.append(lab)
        out[name]=dict(rows=rows,true=true,steps=K,rate=rate,held=False)
    for noise in (.5,1.0):
        for r in (2,4,8): make(f'rounds{r} n{noise}',lambda rng,r=r:[[0,*[1,2,3,4]*r,5]]*12,1,noise,4.,6)
        make(f'strict n{noise}',lambda rng:[list(range(8))]*8,2,noise,15.,8)
        make(f'free n{noise}',lambda rng:[rng.permutation(8).tolist() for _ in range(10)],3,noise,15.,8)
        make(f'swap n{noise}',lambda rng:[np.argsort(np.arange(8)+rng.normal(size=8)*1.0).tolist() for _ in range(10)],4,noise,15.,8)
    return out
def job(a):
    n,k,c,ro,eo=a; t=time.process_time(); q=[none(c,ro,eo,seed)[:3] for seed in range(ro.get('seeds',1))]; f,r,s=np.mean(q,0); return n,k,f,r,s,time.process_time()-t
if __name__=='__main__':
    from concurrent.futures import ProcessPoolExecutor
    d=load(); d.pop('openpack'); d|=(toys() if len(sys.argv)>3 else {}); cfg=eval(open(sys.argv[1]).read())
    real=[k for k in d if k.startswith(('image','clip'))]
    jobs=[(n,k,c,ro,eo) for n,(ro,eo) in cfg.items() for k,c in d.items()]
    res={}
    with ProcessPoolExecutor(int(sys.argv[2])) as ex:
        for n,k,f,r,s,t in ex.map(job,jobs): res.setdefault(n,{})[k]=(f,r,s,t)
    for n,r in res.items():
        print(f"{n:18s} real votes {np.mean([r[k][0] for k in real]):.1f} em {np.mean([r[k][1] for k in real]):.1f} chosen {np.mean([r[k][1] for k in real if not d[k]['held']]):.1f} held {np.mean([r[k][1] for k in real if d[k]['held']]):.1f} cpu {np.mean([r[k][3] for k in real]):.1f} |"," ".join(f"{k}:{r[k][1]:.0f}({r[k][2]:.1f})" for k in r if k not in real),flush=True)
