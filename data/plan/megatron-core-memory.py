"""What Megatron-Core's own modules keep for backward, and their peak in one forward and backward pass of a stage: fake tensors, fake process group.

Kernels that are not in its package, and those that torch compiles on a GPU, are stood in for by functions that keep what they keep: fused norms
(input, a statistic a token), flash attention on contiguous inputs (queries, keys, values, results, a sum a head and token), fused rotations
(nothing), dropout (a byte an element), SwiGLU and GELU without intermediate tensors, and gradients of weights that are added where they are summed. Run with TORCHDYNAMO_DISABLE=1.
"""
import contextlib, json, logging, types, warnings, weakref
warnings.filterwarnings("ignore"); logging.disable(logging.WARNING)
import torch, torch.distributed as dist
import torch.distributed._tools.fake_collectives
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.testing._internal.distributed.fake_pg import FakeStore
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map_only
torch.cuda.current_device = lambda: "cpu"
import megatron.core.fusions.fused_bias_gelu as gelu, megatron.core.fusions.fused_bias_swiglu as swiglu
import megatron.core.parallel_state as ps
import megatron.core.tensor_parallel.layers as layer
import megatron.core.tensor_parallel.random as random
import megatron.core.transformer.attention as attention
from megatron.core.models.gpt.gpt_layer_specs import get_gpt_layer_local_spec
from megatron.core.models.gpt.gpt_model import GPTModel
from megatron.core.transformer.transformer_block import TransformerBlockSubmodules
from megatron.core.transformer.transformer_config import TransformerConfig

nothing = lambda *_: None
layer._grad_accum_fusion_available = True
layer.fused_weight_gradient_mlp_cuda = types.SimpleNamespace(wgrad_gemm_accum_fp32=nothing, wgrad_gemm_accum_fp16=nothing)
random.CudaRNGStatesTracker.fork = lambda s, name=None: contextlib.nullcontext()
half = lambda y: y.new_empty(*y.shape[:-1], y.shape[-1] // 2)
swiglu.swiglu, swiglu.swiglu_back = half, lambda g, y: torch.empty_like(y)
swiglu.bias_swiglu, swiglu.bias_swiglu_back = lambda y, b: half(y), lambda g, y, b: torch.empty_like(y)
gelu.bias_gelu, gelu.bias_gelu_back = lambda b, y: torch.empty_like(y), lambda g, b, y: torch.empty_like(y)

class Norm(torch.autograd.Function):
    @staticmethod
    def forward(c, x, w):
        c.save_for_backward(x, w, torch.empty(x.shape[:-1], dtype=torch.float32)); return torch.empty_like(x)
    @staticmethod
    def backward(c, g):
        x, w, _ = c.saved_tensors; return torch.empty_like(x), torch.empty_like(w)

class FusedNorm(torch.nn.Module):
    def __init__(s, config=None, hidden_size=None, eps=1e-5, **_):
        super().__init__(); s.weight = torch.nn.Parameter(torch.empty(hidden_size, dtype=config.params_dtype))
    def forward(s, x): return Norm.apply(x, s.weight)

class Flash(torch.autograd.Function):
    @staticmethod
    def forward(c, q, k, v):
        o = torch.empty_like(q); c.save_for_backward(q, k, v, o, torch.empty(q.shape[:3], dtype=torch.float32)); return o
    @staticmethod
    def backward(c, g):
        q, k, v, _, _ = c.saved_tensors; return torch.empty_like(q), torch.empty_like(k), torch.empty_like(v)

class FlashAttention(torch.nn.Module):
    def __init__(s, **_): super().__init__()
    def forward(s, q, k, v, *_, **__):
        o = Flash.apply(*(x.transpose(0, 1).contiguous() for x in (q, k, v))).transpose(0, 1)
        return o.reshape(o.shape[0], o.shape[1], -1)

class Rope(torch.autograd.Function):
    @staticmethod
    def forward(c, t): return torch.empty_like(t, memory_format=torch.contiguous_format)
    @staticmethod
    def backward(c, g): return torch.empty_like(g)

class Drop(torch.autograd.Function):
    @staticmethod
    def forward(c, x): c.save_for_backward(torch.empty(x.shape, dtype=torch.bool)); return torch.empty_like(x)
    @staticmethod
    def backward(c, g): return torch.empty_like(g)

attention.apply_rotary_pos_emb = lambda t, freqs, **_: Rope.apply(t)
torch.nn.functional.dropout = lambda x, p=0.5, training=True, inplace=False: Drop.apply(x) if p > 0 else x
torch.nn.Dropout.forward = lambda s, x: torch.nn.functional.dropout(x, s.p)

class Live(TorchDispatchMode):
    """Bytes of storages that are alive, and the most of them; without parameters."""
    def __init__(s, skip): super().__init__(); s.seen, s.now, s.peak, s.skip = {}, 0, 0, skip
    def __torch_dispatch__(s, f, types, args=(), kwargs=None):
        out = f(*args, **(kwargs or {}))
        def see(x):
            storage = x.untyped_storage(); key, size = storage._cdata, storage.nbytes()
            if key in s.seen or key in s.skip: return x
            s.seen[key] = size; s.now += size; s.peak = max(s.peak, s.now)
            def gone(): s.seen.pop(key, None); s.now -= size
            weakref.finalize(storage, gone)
            return x
        tree_map_only(torch.Tensor, see, out)
        return out

def measured(config, layers, sequence, samples, width, first, last):
    h, a = config["hidden_size"], config["num_attention_heads"]
    gated, v = config["model_type"] not in ("gpt2", "opt"), config["vocab_size"]
    dist.init_process_group("fake", rank=0, world_size=width, store=FakeStore())
    ps.initialize_model_parallel(tensor_model_parallel_size=width, create_gloo_process_groups=False)
    try:
        built = TransformerConfig(num_layers=layers, hidden_size=h, num_attention_heads=a, num_query_groups=config.get("num_key_value_heads", a),
            kv_channels=config.get("head_dim", h // a), ffn_hidden_size=config.get("intermediate_size", 4 * h), gated_linear_unit=gated,
            activation_func=torch.nn.functional.silu if gated else torch.nn.functional.gelu, bias_activation_fusion=True,
            add_bias_linear=not gated, add_qkv_bias=config["model_type"] == "qwen2", normalization="RMSNorm" if gated else "LayerNorm",
            tensor_model_parallel_size=width, sequence_parallel=width > 1, bf16=True, params_dtype=torch.bfloat16,
            pipeline_dtype=torch.bfloat16, hidden_dropout=0.0 if gated else 0.1, attention_dropout=0.0, use_cpu_initialization=True,
            perform_initialization=False, gradient_accumulation_fusion=True, bias_dropout_fusion=False, masked_softmax_fusion=False)
        spec = get_gpt_layer_local_spec(normalization=built.normalization)
        spec.submodules.input_layernorm = spec.submodules.pre_mlp_layernorm = FusedNorm
        spec.submodules.self_attention.submodules.core_attention = FlashAttention
        with FakeTensorMode(allow_non_fake_inputs=True):
            model = GPTModel(built, TransformerBlockSubmodules(layer_specs=[spec] * layers, layer_norm=FusedNorm),
                vocab_size=-(-v // (128 * width)) * 128 * width, max_sequence_length=sequence, pre_process=first, post_process=last,
                position_embedding_type="rope" if gated else "learned_absolute",
                share_embeddings_and_output_weights=config.get("tie_word_embeddings", False)).bfloat16()
            parameters = {p.untyped_storage()._cdata for p in model.parameters()}
            for p in model.parameters(): p.main_grad = torch.empty_like(p, dtype=torch.float32)
            parameters |= {p.main_grad.untyped_storage()._cdata for p in model.parameters()}
            for p in model.parameters(): p.register_post_accumulate_grad_hook(lambda p: setattr(p, "grad", None))
            tokens = torch.zeros(samples, sequence, dtype=torch.int64)
            if not first: model.set_input_tensor(torch.empty(sequence // width, samples, h, dtype=torch.bfloat16, requires_grad=True))
            kept, held = {}, []
            def pack(t):
                storage = t.untyped_storage()
                if storage._cdata not in parameters: kept[storage._cdata] = storage.nbytes(); held.append(storage)
                return t
            labels = tokens if last else None
            with torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t): model(tokens, tokens, None, labels=labels)
            held.clear(); ps._GLOBAL_MEMORY_BUFFER.buffer.clear()
            with Live(parameters) as live:
                out = model(tokens, tokens, None, labels=labels)
                (out.sum() if last else out).backward(None if last else torch.empty_like(out))
            return {"keptBytes": sum(kept.values()), "peakBytes": live.peak}
    finally:
        ps.destroy_model_parallel(); dist.destroy_process_group()

gated = lambda kind, h, a, g, f, v, **rest: dict(model_type=kind, hidden_size=h, num_attention_heads=a, num_key_value_heads=g, intermediate_size=f, vocab_size=v, **rest)
MODELS = [
    ("GPT-2 1.3B", dict(model_type="gpt2", hidden_size=2048, num_attention_heads=16, vocab_size=50257, n_positions=1024, tie_word_embeddings=True), 1024),
    ("OPT 6.7B", dict(model_type="opt", hidden_size=4096, num_attention_heads=32, vocab_size=50272, max_position_embeddings=2048, tie_word_embeddings=True), 2048),
    ("Llama 2 7B", gated("llama", 4096, 32, 32, 11008, 32000), 4096),
    ("Llama 3 8B", gated("llama", 4096, 32, 8, 14336, 128256), 8192),
    ("Llama 3.1 405B", gated("llama", 16384, 128, 8, 53248, 128256), 8192),
    ("Qwen2.5 0.5B", gated("qwen2", 896, 14, 2, 4864, 151936, tie_word_embeddings=True), 4096),
    ("Qwen2.5 7B", gated("qwen2", 3584, 28, 4, 18944, 152064), 4096),
    ("Gemma 2B", gated("gemma", 2048, 8, 1, 16384, 256000, head_dim=256, tie_word_embeddings=True), 4096),
]
if __name__ == "__main__":
    for name, config, sequence in MODELS:
        for width in (1, 2, 4):
            if config.get("num_key_value_heads", 8) % width: continue
            for first, last, samples in ((False, False, 1), (True, False, 1), (False, True, 2), (True, True, 1)):
                case = dict(layers=4, sequence=sequence, samples=samples, width=width, first=first, last=last)
                print(json.dumps(dict(model=name, config={**config, "num_hidden_layers": 4}, **case, **measured(config, **case))), flush=True)
