package fovea

/*
#include "shim.h"
*/
import "C"

import (
	"runtime"
	"unsafe"
)

// PackedMatrix is a right-hand side of products, packed once. Any number of goroutines may use it.
type PackedMatrix struct{ raw *C.fovea_packed_matrix }

func newPackedMatrix(raw *C.fovea_packed_matrix, err error) (*PackedMatrix, error) {
	if err != nil {
		return nil, err
	}
	packed := &PackedMatrix{raw}
	runtime.SetFinalizer(packed, (*PackedMatrix).Close)
	return packed, nil
}

// PackMatrix packs b [K,N] for Multiply.
func PackMatrix(context *Context, b *Tensor, options *MatmulPackOptions) (*PackedMatrix, error) {
	return newPackedMatrix(cMatmulPack(context, b, options))
}

// PackLinear packs a weight, [out,in] unless the options say otherwise, for Linear.
func PackLinear(context *Context, weight *Tensor, options *LinearPackOptions) (*PackedMatrix, error) {
	return newPackedMatrix(cLinearPack(context, weight, options))
}

func (p *PackedMatrix) pointer() *C.fovea_packed_matrix {
	if p == nil {
		return nil
	}
	return p.raw
}

// Multiply is out = a b.
func (p *PackedMatrix) Multiply(context *Context, a, out *Tensor) error {
	return cMatmulPacked(context, a, p, out)
}

// Linear is out = activation(x W + bias) + residual.
func (p *PackedMatrix) Linear(context *Context, x, out *Tensor, options *LinearOptions) error {
	return cLinear(context, x, p, out, options)
}

// Size is how many bytes it holds.
func (p *PackedMatrix) Size() int {
	defer runtime.KeepAlive(p)
	return int(C.fovea_packed_matrix_size(p.pointer()))
}

// Close frees it. No call may still be using it.
func (p *PackedMatrix) Close() {
	C.fovea_packed_matrix_destroy(p.raw)
	p.raw = nil
}

// MhaWeights are the weights of a multi-head attention layer, packed once. Any number of goroutines may use them.
type MhaWeights struct{ raw *C.fovea_mha_weights }

// NewMhaWeights packs them.
func NewMhaWeights(context *Context, parameters *MhaParameters) (*MhaWeights, error) {
	raw, err := cMhaWeightsCreate(context, parameters)
	if err != nil {
		return nil, err
	}
	weights := &MhaWeights{raw}
	runtime.SetFinalizer(weights, (*MhaWeights).Close)
	return weights, nil
}

func (w *MhaWeights) pointer() *C.fovea_mha_weights {
	if w == nil {
		return nil
	}
	return w.raw
}

// Attend is multi-head attention: fovea_multi_head_attention. key nil is query, value nil is key.
func (w *MhaWeights) Attend(context *Context, query, key, value, out *Tensor, options *MhaOptions) error {
	return cMultiHeadAttention(context, w, query, key, value, out, options)
}

// Size is how many bytes they hold.
func (w *MhaWeights) Size() int {
	defer runtime.KeepAlive(w)
	return int(C.fovea_mha_weights_size(w.pointer()))
}

// Close frees them. No call may still be using them.
func (w *MhaWeights) Close() {
	C.fovea_mha_weights_destroy(w.raw)
	w.raw = nil
}

// KvCache holds keys and values of sequences of one length. One call at a time may change it, and none may use it
// meanwhile; any number may attend at once.
type KvCache struct{ raw *C.fovea_kv_cache }

func newKvCache(raw *C.fovea_kv_cache, err error) (*KvCache, error) {
	if err != nil {
		return nil, err
	}
	cache := &KvCache{raw}
	runtime.SetFinalizer(cache, (*KvCache).Close)
	return cache, nil
}

// NewKvCache makes an empty one.
func NewKvCache(sizes KvCacheSizes) (*KvCache, error) { return newKvCache(cKvCacheCreate(&sizes)) }

// RestoreKvCache makes one of what Save gave. capacity 0: as it was saved with.
func RestoreKvCache(bytes []byte, capacity int) (*KvCache, error) {
	return newKvCache(cKvCacheRestore((*C.uchar)(pointer(bytes, 0)), uintptr(len(bytes)), int64(capacity)))
}

func (c *KvCache) pointer() *C.fovea_kv_cache {
	if c == nil {
		return nil
	}
	return c.raw
}

// Append appends key [B,Hkv,n,D] and value [B,Hkv,n,Dv] to every sequence.
func (c *KvCache) Append(context *Context, key, value *Tensor) error {
	return cKvCacheAppend(context, c, key, value)
}

// Attend is attention over all that the cache holds.
func (c *KvCache) Attend(context *Context, score *Score, query, out *Tensor, options *AttentionOptions) error {
	return cKvCacheAttend(context, c, score, query, out, options)
}

// Truncate forgets the positions from length on.
func (c *KvCache) Truncate(length int) error { return cKvCacheTruncate(c, int64(length)) }

// Reorder makes sequence b a copy of what was sequence source[b].
func (c *KvCache) Reorder(context *Context, source *Tensor) error {
	return cKvCacheReorder(context, c, source)
}

// Len is how many positions it holds.
func (c *KvCache) Len() int {
	defer runtime.KeepAlive(c)
	return int(C.fovea_kv_cache_length(c.pointer()))
}

// Size is how many bytes it holds.
func (c *KvCache) Size() int {
	defer runtime.KeepAlive(c)
	return int(C.fovea_kv_cache_size(c.pointer()))
}

// Save gives what it holds as bytes, for a file or another machine.
func (c *KvCache) Save() ([]byte, error) {
	bytes := make([]byte, int(C.fovea_kv_cache_saved_size(c.pointer())))
	return bytes, cKvCacheSave(c, (*C.uchar)(pointer(bytes, 0)), uintptr(len(bytes)))
}

// Close frees it. No call may still be using it.
func (c *KvCache) Close() {
	C.fovea_kv_cache_destroy(c.raw)
	c.raw = nil
}

// PreparedKeys are keys that are attended again and again, as an additive, concat or bilinear score reads them. One call at
// a time may append or truncate, and none may use them meanwhile; any number may attend at once.
type PreparedKeys struct{ raw *C.fovea_prepared_keys }

// NewPreparedKeys makes room for keys, none of them there yet. The score's parameters are copied.
func NewPreparedKeys(context *Context, score *Score, sizes PreparedKeysSizes) (*PreparedKeys, error) {
	raw, err := cPreparedKeysCreate(context, score, &sizes)
	if err != nil {
		return nil, err
	}
	keys := &PreparedKeys{raw}
	runtime.SetFinalizer(keys, (*PreparedKeys).Close)
	return keys, nil
}

func (k *PreparedKeys) pointer() *C.fovea_prepared_keys {
	if k == nil {
		return nil
	}
	return k.raw
}

// Append appends key [B,Hkv,n,Dk] to every sequence.
func (k *PreparedKeys) Append(context *Context, key *Tensor) error {
	return cPreparedKeysAppend(context, k, key)
}

// Truncate forgets the keys from length on.
func (k *PreparedKeys) Truncate(length int) error { return cPreparedKeysTruncate(k, int64(length)) }

// Attend is attention over all the keys: fovea_attention_prepared.
func (k *PreparedKeys) Attend(context *Context, query, value, out *Tensor, options *AttentionOptions) error {
	return cAttentionPrepared(context, query, k, value, out, options)
}

// Len is how many keys each sequence has.
func (k *PreparedKeys) Len() int {
	defer runtime.KeepAlive(k)
	return int(C.fovea_prepared_keys_length(k.pointer()))
}

// Size is how many bytes they take.
func (k *PreparedKeys) Size() int {
	defer runtime.KeepAlive(k)
	return int(C.fovea_prepared_keys_size(k.pointer()))
}

// Close frees them. No call may still be using them, nor a plan over them.
func (k *PreparedKeys) Close() {
	C.fovea_prepared_keys_destroy(k.raw)
	k.raw = nil
}

// Plan is a checked call with everything but the data decided. Any number of goroutines may run one at once, each with a
// workspace of its own.
type Plan struct {
	raw     *C.fovea_plan
	planned layouts
	// What the plan keeps using.
	context *Context
	keys    *PreparedKeys
}

// Workspace is a run's scratch memory.
type Workspace struct{ memory []byte }

func newPlan(raw *C.fovea_plan, err error, planned layouts, context *Context, keys *PreparedKeys) (*Plan, error) {
	if err != nil {
		return nil, err
	}
	plan := &Plan{raw, planned, context, keys}
	runtime.SetFinalizer(plan, (*Plan).Close)
	return plan, nil
}

// PlanSdpa plans the call that Sdpa would make. No data is read: ShapeOnly will do.
func PlanSdpa(context *Context, query, key, value, out *Tensor, options *AttentionOptions) (*Plan, error) {
	raw, err := cSdpaPlanCreate(context, query, key, value, out, options)
	return newPlan(raw, err, layoutsOf(nil, query, key, value, out, options), context, nil)
}

// PlanAttention plans the call that Attention would make. Of the score, a width is taken now, tensors in each run.
func PlanAttention(context *Context, score *Score, query, key, value, out *Tensor, options *AttentionOptions) (*Plan, error) {
	raw, err := cAttentionPlanCreate(context, score, query, key, value, out, options)
	return newPlan(raw, err, layoutsOf(score, query, key, value, out, options), context, nil)
}

// PlanPrepared plans the call that PreparedKeys.Attend would make. Runs attend what the keys hold then, but for as many
// keys as now.
func PlanPrepared(context *Context, query *Tensor, keys *PreparedKeys, value, out *Tensor,
	options *AttentionOptions) (*Plan, error) {
	raw, err := cAttentionPreparedPlanCreate(context, query, keys, value, out, options)
	return newPlan(raw, err, layoutsOf(nil, query, nil, value, out, options), context, keys)
}

// NewWorkspace makes scratch memory for one run at a time.
func (p *Plan) NewWorkspace() *Workspace { return &Workspace{make([]byte, p.WorkspaceSize())} }

// WorkspaceSize is how many bytes of scratch memory a run needs.
func (p *Plan) WorkspaceSize() int {
	defer runtime.KeepAlive(p)
	return int(C.fovea_plan_workspace_size(p.raw))
}

// Run runs the call on other data in the layouts that were planned.
func (p *Plan) Run(buffers *Buffers, workspace *Workspace) error {
	if err := buffers.check(&p.planned); err != nil {
		return err
	}
	var memory *C.uchar
	if len(workspace.memory) > 0 {
		memory = (*C.uchar)(unsafe.Pointer(&workspace.memory[0]))
	}
	err := buffers.run(p.raw, &p.planned, memory, len(workspace.memory))
	runtime.KeepAlive(p)
	return err
}

// Describe tells instruction set, path, tiles, tasks, threads and bytes in a line.
func (p *Plan) Describe() string {
	defer runtime.KeepAlive(p)
	text := make([]byte, int(C.fovea_plan_describe(p.raw, nil, 0))+1)
	C.fovea_plan_describe(p.raw, (*C.char)(unsafe.Pointer(&text[0])), C.size_t(len(text)))
	return string(text[:len(text)-1])
}

// Close frees the plan. No call may still be using it.
func (p *Plan) Close() {
	C.fovea_plan_destroy(p.raw)
	p.raw = nil
}
