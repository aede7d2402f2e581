"""Peak memory of one training step under torch's FSDPMemTracker: fake tensors, fake process group, CPU device."""
import json, sys, torch, torch.nn as nn, torch.nn.functional as F
import torch.distributed as dist
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.testing._internal.distributed.fake_pg import FakeStore
from torch.distributed.fsdp import fully_shard, MixedPrecisionPolicy
from torch.distributed._tools.fsdp2_mem_tracker import FSDPMemTracker

class Gpt(nn.Module):
    class Block(nn.Module):
        def __init__(s, h, a, f):
            super().__init__(); s.a=a
            s.n1=nn.LayerNorm(h); s.qkv=nn.Linear(h,3*h); s.o=nn.Linear(h,h); s.n2=nn.LayerNorm(h); s.u=nn.Linear(h,f); s.d=nn.Linear(f,h)
        def forward(s,x):
            b,t,h=x.shape
            q,k,v=(y.view(b,t,s.a,h//s.a).transpose(1,2) for y in s.qkv(s.n1(x)).split(h,2))
            x=x+s.o(F.scaled_dot_product_attention(q,k,v,is_causal=True).transpose(1,2).reshape(b,t,h))
            return x+s.d(F.gelu(s.u(s.n2(x))))
    def __init__(s,l,h,a,f,v,p):
        super().__init__(); s.e=nn.Embedding(v,h); s.p=nn.Embedding(p,h); s.b=nn.ModuleList(Gpt.Block(h,a,f) for _ in range(l)); s.n=nn.LayerNorm(h); s.head=nn.Linear(h,v,bias=False); s.head.weight=s.e.weight
    def forward(s,x):
        y=s.e(x)+s.p(torch.arange(x.shape[1],device=x.device))
        for b in s.b: y=b(y)
        return s.head(s.n(y))

class Llama(nn.Module):
    class Block(nn.Module):
        def __init__(s,h,a,g,f):
            super().__init__(); s.a,s.g,s.d=a,g,h//a
            s.n1=nn.RMSNorm(h); s.q=nn.Linear(h,h,bias=False); s.k=nn.Linear(h,g*s.d,bias=False); s.v=nn.Linear(h,g*s.d,bias=False); s.o=nn.Linear(h,h,bias=False)
            s.n2=nn.RMSNorm(h); s.w1=nn.Linear(h,f,bias=False); s.w3=nn.Linear(h,f,bias=False); s.w2=nn.Linear(f,h,bias=False)
        def forward(s,x):
            b,t,h=x.shape; y=s.n1(x)
            q=s.q(y).view(b,t,s.a,s.d).transpose(1,2); k=s.k(y).view(b,t,s.g,s.d).transpose(1,2); v=s.v(y).view(b,t,s.g,s.d).transpose(1,2)
            # As Transformers and torchtitan do where heads share keys; the kernel for CPUs has no such mode and would keep scores.
            if s.g<s.a: k,v=(y.repeat_interleave(s.a//s.g,1) for y in (k,v))
            x=x+s.o(F.scaled_dot_product_attention(q,k,v,is_causal=True).transpose(1,2).reshape(b,t,h))
            y=s.n2(x)
            return x+s.w2(F.silu(s.w1(y))*s.w3(y))
    def __init__(s,l,h,a,g,f,v):
        super().__init__(); s.e=nn.Embedding(v,h); s.b=nn.ModuleList(Llama.Block(h,a,g,f) for _ in range(l)); s.n=nn.RMSNorm(h); s.head=nn.Linear(h,v,bias=False)
    def forward(s,x):
        y=s.e(x)
        for b in s.b: y=b(y)
        return s.head(s.n(y))

def run(kind, sizes, t, mb, world, recompute):
    dist.init_process_group("fake", rank=0, world_size=world, store=FakeStore())
    mesh = dist.init_device_mesh("cpu", (world,))
    try:
        with FakeTensorMode():
            model = (Gpt if kind=="gpt" else Llama)(*sizes)
            if recompute:
                from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper, apply_activation_checkpointing, CheckpointImpl
                cls = Gpt.Block if kind=="gpt" else Llama.Block
                apply_activation_checkpointing(model, checkpoint_wrapper_fn=lambda m: checkpoint_wrapper(m, checkpoint_impl=CheckpointImpl.NO_REENTRANT), check_fn=lambda m: isinstance(m, cls))
            mp = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
            for b in model.b: fully_shard(b, mesh=mesh, mp_policy=mp, reshard_after_forward=True)
            fully_shard(model, mesh=mesh, mp_policy=mp)
            params=sum(p.numel() for p in model.parameters())
            opt = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=False, foreach=False)
            mt = FSDPMemTracker(model, opt)
            x = torch.randint(0, sizes[-2 if kind=="gpt" else -1], (mb,t))
            mt.track_inputs((x,))
            v = sizes[-2 if kind=="gpt" else -1]
            with mt:
                for i in range(2):
                    logits = model(x)
                    loss = F.cross_entropy(logits.float().view(-1, v), x.view(-1))
                    del logits
                    loss.backward(); opt.step(); opt.zero_grad(); del loss
                    if i==0: mt.reset_mod_stats()
            snap = mt.get_tracker_snapshot("peak")
        out={}
        for dev, parts in snap.items():
            out[str(dev)] = {str(getattr(k,'value',k)): v for k,v in parts.items()}
        return params, out
    finally:
        dist.destroy_process_group()
if __name__=="__main__":
    print(run("gpt",(4,512,8,2048,50257,1024),1024,2,4,False))
