from proto import *
BINS=50
DEF=dict(scales=(16.,4.),motion=1.0,iters=10,shrink=.5,width=.15,anytime=.05,balance=.2,most=3.0,open_total=1.0,
         bg_pseudo=0.0,temp=None,clockw=1.0,share_pseudo=1.0,dim=128,soft=None,stride_div=2.0,count_bg=True)
def overlap_soft(posts,found,K):
    C=np.zeros((K,K)); a=np.zeros(K); b=np.zeros(K)
    for p,f in zip(posts,found):
        oh=(f[:,None]==np.arange(K)).astype(float)
        C+=p[:,:K].T@oh; a+=p[:,:K].sum(0); b+=oh.sum(0)
    return 2*C/np.maximum(a[:,None]+b[None],1e-9)
class Model: pass
def view(x,sig,lag,o):
    zs=[smooth(x,s) for s in sig]
    return np.column_stack([*zs,motion(zs[0],lag)]) if o['motion'] else np.column_stack(zs)
def runs_len(l):
    c=np.flatnonzero(np.diff(l))+1; b=np.r_[0,c,len(l)]; return l[b[:-1]],np.diff(b)
def learn(videos,rate,K,found,graphs,opts={}):
    """videos (T,p) centred; found: labels without person; graphs: Graph or None per video."""
    o={**DEF,**opts}; S=K+1; N=len(videos)
    median=float(np.median([len(v) for v in videos]))
    con=[i for i in range(N) if graphs[i] is not None]
    flat=[None]*N
    usual=median/K
    stay0=1-1/usual
    det=[np.zeros(len(v)) for v in videos]
    for i in con:
        T=len(videos[i]); p,_=graphs[i].run(np.zeros((T,S)),stay0); flat[i]=p
        H=-(p*np.log(np.maximum(p,1e-300))).sum(1); det[i]=(1-H/np.log(S))**o.get('detpow',1.0)
    start=[f.copy() for f in found]
    if con:
        gain=overlap_soft([flat[i] for i in con],[found[i] for i in con],K)+1e-9*np.eye(K)
        _,j=linear_sum_assignment(-gain) if o.get('renum',1) else (0,np.arange(K))
        num=np.append(np.argsort(j),-1)
        start=[num[f] for f in found]
    symb=None
    if con and o.get('discrete') and (o.get('dall') or any(not graphs[i].ergodic for i in con)):
        sy=[np.where(f<0,K,f) for f in found]; rng=np.random.default_rng(0); best=(-np.inf,None)
        tempd=o.get('dtemp',8.0)/ (16.) * usual
        for rs in range(o['discrete']):
            B=None; post={}
            for i in con:
                T=len(videos[i]); ev=np.zeros((T,S))
                if rs>0: ev=np.repeat(rng.normal(size=(-(-T//max(1,int(usual/4))),S)),max(1,int(usual/4)),0)[:T]*o.get('dnoise',.1)
                post[i],_=graphs[i].run(ev,stay0)
            for it in range(o.get('diters',20)):
                B=np.full((S,S),o.get('dalpha',1.0))
                for i in con:
                    # every video counts once per symbol
                    B+=post[i].T@(sy[i][:,None]==np.arange(S))/len(sy[i])*S
                B/=B.sum(1,keepdims=True); prior=B.mean(0); ll=0
                for i in con:
                    ev=np.log(B/prior)[:,sy[i]].T/tempd
                    post[i],l=graphs[i].run(ev,stay0); ll+=l
            if ll>best[0]: best=(ll,post,B)
        symb=best[1]; Bf=best[2]
        # numbering of found for open videos
        gain=np.zeros((K,K))
        gain=overlap_soft([symb[i] for i in con],[found[i] for i in con],K)
        _,j=linear_sum_assignment(-gain); num=np.append(np.argsort(j),-1); start=[num[f] for f in found]
    init=[]
    for i in range(N):
        oh=(np.where(start[i]<0,K,start[i])[:,None]==np.arange(S)).astype(float)
        if i in con:
            ev=np.log(.5*oh+.5/S)  # weak
            oh=symb[i] if symb is not None else graphs[i].run(ev*o.get('init_ev',.2),stay0)[0]
        elif symb is not None and o.get('dopen'):
            pr=Bf.mean(0); ev=np.log(Bf/pr)[:,np.where(found[i]<0,K,found[i])].T/tempd
            T=len(ev); oo=Graph(T,S).run(ev,stay0)[0]; oh=(1-o['dopen'])*oh+o['dopen']*oo
        init.append(oh)
    if con and o.get('both'):
        first=learn([videos[i] for i in con],rate,K,[start[i] for i in con],[graphs[i] for i in con],{**opts,'both':0,'iters':o.get('both_iters',3),'renum':0})
        for i in range(N):
            if i not in con:
                init[i]=(1-o['both'])*init[i]+o['both']*posterior(first,videos[i])
    # durations and shares
    hard=[init[i].argmax(1) for i in (con or range(N))]
    segs=[runs_len(h) for h in hard]
    st=np.concatenate([s for s,_ in segs]); ln=np.concatenate([l for _,l in segs]); done=st<K
    lasts=(ln[done].sum()+usual)/(done.sum()+1); stay=1-min(.5,(len(ln)+1)/(ln.sum()+usual))
    if not con and o.get('lasts')=='usual': lasts=usual; stay=1-1/usual
    if not con and o.get('lasts')=='sigma': lasts=4*o['sigma0']
    totals=np.full(S,median/S)*o['share_pseudo']
    for i in (con or range(N)): totals+=init[i].sum(0)
    share=totals/totals.sum()
    sig=np.array([lasts/s for s in o['scales']]); stride=max(1,int(sig[0]/o['stride_div'])); lag=max(1,round((o['motion'] or 1)*rate))
    temp=max(1.0,sig[0]) if o['temp'] is None else o['temp']*max(1.0,sig[0])
    openmass=sum((1-d).sum() for d in det); trust=o['open_total']/max(o['open_total'],openmass/median)
    Z=[view(v,sig,lag,o)[::stride] for v in videos]; P=[p[::stride] for p in init]
    W=[(d+(1-d)*trust)[::stride] for d in det]; tt=[ntimes(len(z)) for z in Z]
    gs=[]
    for i in range(N):
        if graphs[i] is None: gs.append(Graph(len(Z[i]),S))
        else: gs.append(graphs[i].strided(stride,len(videos[i])) )
    stays=max(.5,1-stride*(1-stay)); shortest=sig[1]/stride
    kern=[np.exp(-((ntimes(BINS)[:,None]-t)**2)/(2*o['width']**2)) for t in tt]
    bonus=[np.zeros(S) for _ in Z]
    scatter=sum(z.T@(z*w[:,None]) for z,w in zip(Z,W)); dim=len(scatter)
    m=Model(); m.sig,m.lag,m.temp,m.stay,m.K,m.o=sig,lag,temp,stay,K,o
    def mstep():
        means=np.zeros((S,dim)); clock=np.zeros((BINS,S)); wt=np.zeros(S); sums=np.zeros((S,dim)); mass=np.zeros(S)
        for z,p,w,k,d in zip(Z,P,W,kern,det):
            tr=p*w[:,None]; sums+=tr.T@z; mass+=tr.sum(0)
            once=tr/np.maximum(p.sum(0),shortest)
            means+=once.T@z; clock+=k@once; wt+=once.sum(0)
        seen=wt>1e-6
        div=np.maximum(wt,1e-9); div[-1]+=o['bg_pseudo']
        means/=div[:,None]
        cross=sums.T@means; within=(scatter-cross-cross.T+(means.T*mass)@means)/max(mass.sum(),1e-9)
        lev=np.trace(within)/dim
        Wt=np.linalg.solve(within+o['shrink']*lev*np.eye(dim),means.T)
        b=np.where(seen,-.5*(means.T*Wt).sum(0),-1e6)
        if o['bg_pseudo'] and not seen[-1]: b[-1]=0
        dens=BINS*clock/np.maximum(clock.sum(0),1e-9)
        if o.get('loo') is not None:
            inv=np.linalg.inv(within+o['shrink']*lev*np.eye(dim)); m.loo=[]
            tot=means*div[:,None]
            for z,p,w in zip(Z,P,W):
                once=p*w[:,None]/np.maximum(p.sum(0),shortest); k=1-o['loo']
                ow=once.sum(0); d2=div-k*ow; mm=(tot-k*(once.T@z))/np.maximum(d2,1e-9)[:,None]
                wl=inv@mm.T; bl=np.where(seen,-.5*(mm.T*wl).sum(0),-1e6)
                if o['bg_pseudo'] and not seen[-1]: bl[-1]=0
                m.loo.append((wl,bl))
        return Wt,b,o['clockw']*np.log((1-o['anytime'])*dens+o['anytime'])
    for _ in range(o['iters']):
        m.W,m.b,m.clock=mstep()
        for i in range(N):
            if (graphs[i] is not None) and det[i].min()>.999: continue
            bins=np.minimum((tt[i]*BINS).astype(int),BINS-1)
            Wi,bi=m.loo[i] if o.get('loo') is not None else (m.W,m.b)
            ev=(Z[i]@Wi+bi)/temp*stride**o.get('stridepow',0)+m.clock[bins]+bonus[i]
            P[i],_=gs[i].run(ev,stays)
            if graphs[i] is not None and not gs[i].ergodic and o.get('bgbal'):
                l=P[i][:,-1].mean(); sh=o.get('bgshare',share[-1]); bonus[i][-1]+=o['bgbal']*np.log((sh+1e-3)/(l+.1*sh+1e-3)); bonus[i][-1]=np.clip(bonus[i][-1],-o['most'],o['most'])
            if graphs[i] is None or gs[i].ergodic:
                l=P[i].mean(0); bonus[i]+=o['balance']*np.log((share+1e-3)/(l+.1*share+1e-3)); np.clip(bonus[i],-o['most'],o['most'],out=bonus[i])
    m.W,m.b,m.clock=mstep()
    m.bonus=bonus; m.P=P; m.num=None if not con else num; m.det=det; m.lasts=lasts
    return m
def posterior(m,x,i=None):
    z=view(x,m.sig,m.lag,m.o); t=ntimes(len(x)); bins=np.minimum((t*BINS).astype(int),BINS-1)
    ev=(z@m.W+m.b)/m.temp+m.clock[bins]
    if i is not None: ev=ev+m.bonus[i]
    return Graph(len(x),m.K+1).run(ev,m.stay)[0]
def hard(p,K):
    b=p.argmax(1); return np.where(b==K,-1,b)
def strided(g,stride,T):
    h=Graph.__new__(Graph); h.__dict__.update(g.__dict__)
    if stride==1: return h
    # a strided row allows what any of its rows... pins: a node pinned at r keeps a pin at r//stride
    m=g.mask; n=-(-T//stride)
    if g.ergodic: h.mask=m[::stride]; return h
    h.mask=m[::stride].copy()
    # keep pins: rows fully pinned
    pins=np.flatnonzero(m.sum(1)==1)
    used={}
    for r in pins:
        q=min(r//stride,n-1); node=int(m[r].argmax())
        while q in used and q+1<n: q+=1
        used[q]=node
    h.mask=np.ones((n,m.shape[1]),bool)
    for q,node in used.items():
        h.mask[q]=False; h.mask[q,node]=True; h.mask[:q,node+1:]=False; h.mask[q+1:,:node]=False
    for q,node in used.items():
        if not h.mask[q].any(): h.mask[q,node]=True
    return h
Graph.strided=strided
def clicks_of(true,rng):
    s,l=runs_len(true); b=np.r_[0,np.cumsum(l)]
    return [(int(rng.integers(b[i],b[i+1])),int(s[i])) for i in range(len(s)) if s[i]>=0]
def transcript_of(true):
    s,l=runs_len(true); return [int(x) for x in s if x>=0]
def evaluate(key,col,st,opts,what=('none','1','3','5','all','c3','c5','call','tall'),draws=5):
    rows,true,K,rate=col['rows'],col['true'],col['steps'],col['rate']; N=len(rows); S=K+1
    found,shares=st['labels'],st['probs']; out={}
    order=[np.random.default_rng(1000+d).permutation(N).tolist() for d in range(draws)]
    mixn=opts.get('mix')
    def go(graphs,targets):
        m=learn(rows,rate,K,found,graphs,opts); n=sum(g.mean() for g in m.det)
        res={}
        for i in targets:
            p=posterior(m,rows[i],i if opts.get('trans') else None)
            if mixn is not None and m.num is not None:
                f=shares[i][:,np.argsort(m.num[:-1])]; p=(mixn*n*p+np.pad(f,((0,0),(0,1))))/(mixn*n+1)
            res[i]=hard(p,K)
        return res
    def graphs_for(kind,ids,rng):
        gs=[None]*N
        for i in ids:
            T=len(rows[i])
            if kind=='f': gs[i]=Graph(T,S,labels=true[i])
            elif kind=='c': gs[i]=Graph(T,S,clicks=clicks_of(true[i],rng))
            elif kind=='t': gs[i]=Graph(T,S,transcript=transcript_of(true[i]))
        return gs
    for w in what:
        if w=='none':
            r=go([None]*N,range(N)); out[w]=[strict([r[i] for i in range(N)],true,K),0,0]; out['found']=[strict(found,true,K),0,0]; continue
        kind='f'
        if w[0] in 'ct' and w!='tA': kind,w2=w[0],w[1:]
        else: w2=w
        if w2=='all':
            r={}
            folds=range(N) if N<=20 else range(0,N,3)
            for i in folds:
                r|=go(graphs_for(kind,[j for j in range(N) if j!=i],np.random.default_rng(i)),[i])
            ids=sorted(r); out[w]=[strict([r[i] for i in ids],[true[i] for i in ids],K),named([r[i] for i in ids],[true[i] for i in ids],K),strict([found[i] for i in ids],[true[i] for i in ids],K)]
        elif w=='tALL':
            pass
        elif w=='tA':
            gs=graphs_for('t',range(N),None); m=learn(rows,rate,K,found,gs,opts)
            r=[]
            for i in range(N):
                z=view(rows[i],m.sig,m.lag,m.o); bins=np.minimum((ntimes(len(z))*BINS).astype(int),BINS-1)
                r.append(hard(gs[i].run((z@m.W+m.b)/m.temp+m.clock[bins],m.stay)[0],K))
            out[w]=[strict(r,true,K),named(r,true,K),0]
        else:
            acc=[]
            for d,od in enumerate(order):
                ids=od[:int(w2)]; tg=[i for i in range(N) if i not in ids]
                r=go(graphs_for(kind,ids,np.random.default_rng(50+d)),tg)
                acc.append([strict([r[i] for i in tg],[true[i] for i in tg],K),named([r[i] for i in tg],[true[i] for i in tg],K),strict([found[i] for i in tg],[true[i] for i in tg],K)])
            out[w]=np.mean(acc,0).tolist()
    return out
