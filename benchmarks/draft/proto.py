"""Prototype of the one model."""
import sys, pickle, os, time, json
import numpy as np
sys.path.insert(0, os.path.join(os.path.dirname(__file__), '..', 'src'))
from numba import njit
from scipy.ndimage import gaussian_filter1d
from scipy.optimize import linear_sum_assignment
OPEN=-2
def load():
    d=pickle.load(open(os.path.join(os.path.dirname(__file__),'columns.pkl'),'rb'))
    for c in d.values(): c['rows']=[r.astype(np.float64) for r in c['rows']]
    return d
def counts(pred,true,K,P):
    C=np.zeros((K,P)); tp=np.zeros(P); tt=np.zeros(K)
    for p,t in zip(pred,true):
        m=(p>=0)&(t>=0); np.add.at(C,(t[m],p[m]),1)
        tp+=np.bincount(p[p>=0],minlength=P); tt+=np.bincount(t[t>=0],minlength=K)
    return C,tp,tt
def strict(pred,true,K):
    P=max(K,1+max(p.max() for p in pred)); C,tp,tt=counts(pred,true,K,P)
    F=2*C/np.maximum(tp[None]+tt[:,None],1); occ=tt>0
    i,j=linear_sum_assignment(-F[occ]); return 100*F[occ][i,j].sum()/occ.sum()
def named(pred,true,K):
    C,tp,tt=counts(pred,true,K,K); F=2*np.diag(C)/np.maximum(tp+tt,1); return 100*F[tt>0].mean()
def smooth(x,s):
    return x if s<1e-9 else gaussian_filter1d(x,min(s,len(x)/2),axis=0)
def motion(x,lag):
    p=np.arange(len(x)); return x[np.minimum(p+lag,len(x)-1)]-x[np.maximum(p-lag,0)]
def ntimes(T): return (np.arange(T)+.5)/T

@njit(cache=True)
def fb(ev, node_state, stay, pool, efrom, eto, ep, first, last, mask):
    """ev (T,S) log-lik; nodes N with state index; mask (T,N) bool allowed. Returns posterior (T,S) and loglik."""
    T=ev.shape[0]; S=ev.shape[1]; N=len(node_state)
    a=np.zeros((T,N)); L=np.zeros((T,N)); ll=0.0
    for t in range(T):
        top=-1e300
        for n in range(N):
            if mask[t,n]:
                e=ev[t,node_state[n]]
                if e>top: top=e
        tot=0.0; s=0.0
        if t>0:
            for n in range(N): s+=a[t-1,n]
        for n in range(N):
            if mask[t,n]:
                L[t,n]=np.exp(max(ev[t,node_state[n]]-top,-600.))
            if t==0: a[t,n]=first[n]
            else: a[t,n]=stay*a[t-1,n]+pool*s
        if t>0:
            for k in range(len(efrom)): a[t,eto[k]]+=ep[k]*a[t-1,efrom[k]]
        if t==T-1:
            for n in range(N): a[t,n]*=last[n]
        for n in range(N):
            a[t,n]*=L[t,n]; tot+=a[t,n]
        if tot<=0: return np.zeros((T,S)), -1e300
        for n in range(N): a[t,n]/=tot
        ll+=np.log(tot)+top
    out=np.zeros((T,S)); b=np.ones(N); sb=np.zeros(N); nb=np.zeros(N)
    for n in range(N): out[T-1,node_state[n]]+=a[T-1,n]
    for t in range(T-2,-1,-1):
        tot=0.0
        for n in range(N):
            sb[n]=b[n]*L[t+1,n]
            if t+1==T-1: sb[n]*=last[n]
            tot+=sb[n]
        for n in range(N): nb[n]=stay*sb[n]+pool*tot
        for k in range(len(efrom)): nb[efrom[k]]+=ep[k]*sb[eto[k]]
        norm=0.0; mx=0.0
        for n in range(N):
            b[n]=nb[n]; norm+=a[t,n]*b[n]
            if b[n]>mx: mx=b[n]
        if norm<=0: return np.zeros((T,S)), -1e300
        for n in range(N): out[t,node_state[n]]+=a[t,n]*b[n]/norm
        for n in range(N): b[n]/=mx
    return out,ll

class Graph:
    """Chain of one video: ergodic with masks, or left-right with masks."""
    def __init__(g,T,S,labels=None,clicks=None,transcript=None):
        bg=S-1
        if clicks is None and transcript is None:
            g.state=np.arange(S); g.ergodic=True
            g.mask=np.ones((T,S),bool)
            if labels is not None:
                lab=np.where(labels==-1,bg,labels); known=labels!=OPEN
                g.mask[known]=False; g.mask[np.flatnonzero(known),lab[known]]=True
            g.first=np.full(S,1/S); g.last=np.ones(S); g.edges=None
            return
        g.ergodic=False
        seq=transcript if transcript is not None else [s for _,s in clicks]
        n=len(seq); st=[bg]
        for s in seq: st+= [s,bg]
        g.state=np.array(st); N=len(st)
        e=[]
        for i in range(N-1):
            e.append((i,i+1))
            if i%2==1 and i+2<N: e.append((i,i+2))
        out=np.bincount([a for a,_ in e],minlength=N)
        g.edges=[(a,b,1/out[a]) for a,b in e]
        g.first=np.zeros(N); g.first[:2]=.5; g.last=np.zeros(N); g.last[-2:]=1
        g.mask=np.ones((T,N),bool)
        if clicks is not None:
            for i,(r,s) in enumerate(clicks):
                node=2*i+1
                g.mask[r]=False; g.mask[r,node]=True
                g.mask[:r,node+1:]=False; g.mask[r+1:,:node]=False
    def run(g,ev,stay):
        S=ev.shape[1]
        if g.ergodic:
            z=np.zeros(0,np.int64); return fb(ev,g.state,stay,(1-stay)/S,z,z,np.zeros(0),g.first,g.last,g.mask)
        a=np.array([x[0] for x in g.edges]); b=np.array([x[1] for x in g.edges]); p=np.array([x[2]*(1-stay) for x in g.edges])
        return fb(ev,g.state,stay,0.0,a,b,p,g.first,g.last,g.mask)
