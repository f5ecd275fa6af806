import sys; sys.path.insert(0,'/work/main/benchmarks'); sys.path.insert(0,'/work/main/src')
import numpy as np, pickle, time
from pathlib import Path
import teach, results_data
from stepcut.methods.stepcut.slow_features import centre, principal_directions
D=Path('/work/shared/data')
cols=list(teach.recipes([D/'captaincook4d',D/'captaincook4d_more']))
out={}
for c in cols:
    cen=[centre(r) for r in c.rows]
    light=float(np.median([len(r) for r in cen]))/360
    P=principal_directions(cen,light,128)
    out[c.key]=dict(rows=[(v@P).astype(np.float32) for v in cen],true=c.true,steps=c.steps,rate=c.rate,held=c.held)
    print(c.key,len(c.rows),sum(map(len,c.rows)),c.steps)
# openpack
import csv
rows=[];true=[]
fs=sorted((D/'openpack/features').glob('*.npy'))
names=[]
labs=[]
for f in fs:
    x=np.load(f).astype(np.float64); 
    l=list(csv.DictReader(open(D/'openpack/labels'/(f.stem+'.csv'))))
    labs.append(l); rows.append(x)
names=sorted({r['step'] for l in labs for r in l})
for x,l in zip(rows,labs):
    t=np.full(len(x),-1); tt=(np.arange(len(x))+.5)/2
    for r in l: t[(tt>=float(r['start']))&(tt<float(r['end']))]=names.index(r['step'])
    true.append(t)
out['openpack']=dict(rows=[centre(r).astype(np.float32) for r in rows],true=true,steps=len(names),rate=2.0,held=True)
pickle.dump(out,open('/work/main/bench_data/columns.pkl','wb'))
