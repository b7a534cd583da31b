// Overhead measures what a small planned call costs here over the C function alone: both in turns, the quicker tenth of many
// short blocks. The C function is called many times by one C function, so that no goroutine stands between.
package main

/*
#cgo CFLAGS: -std=c99 -O2
#cgo pkg-config: fovea
#include <fovea/fovea.h>

static fovea_plan *make_plan(const int64_t *query_shape, const int64_t *key_shape) {
  fovea_context_options options = {.struct_size = sizeof(options), .max_threads = 1};
  fovea_context *context = NULL;
  fovea_plan *plan = NULL;
  fovea_context_create(&options, &context);
  fovea_tensor q = fovea_tensor_contiguous(NULL, FOVEA_F32, 4, query_shape);
  fovea_tensor k = fovea_tensor_contiguous(NULL, FOVEA_F32, 4, key_shape);
  fovea_sdpa_plan_create(context, &q, &k, &k, &q, NULL, &plan);
  return plan;
}

static int run_often(const fovea_plan *plan, float *query, float *key, float *out, void *workspace, int count) {
  fovea_attention_buffers buffers = {.struct_size = sizeof(buffers)};
  buffers.query = query;
  buffers.key = buffers.value = key;
  buffers.out = out;
  int failed = 0;
  for (int i = 0; i < count; ++i)
    failed += fovea_attention_run(plan, &buffers, workspace, fovea_plan_workspace_size(plan)) != FOVEA_OK;
  return failed;
}
*/
import "C"

import (
	"fmt"
	"sort"
	"time"
	"unsafe"

	"fovea"
)

const runs, blocks = 200, 400

func main() {
	queryShape, keyShape := [4]C.int64_t{2, 5, 4, 20}, [4]C.int64_t{2, 5, 6, 20}
	query, key, out := make([]float32, 800), make([]float32, 1200), make([]float32, 800)
	context := fovea.Must(fovea.NewContext(&fovea.ContextOptions{MaxThreads: 1}))
	q, k := fovea.Must(fovea.ShapeOnly[float32](2, 5, 4, 20)), fovea.Must(fovea.ShapeOnly[float32](2, 5, 6, 20))
	plan := fovea.Must(fovea.PlanSdpa(context, q, k, k, q, nil))
	workspace := plan.NewWorkspace()
	inC, memory := C.make_plan(&queryShape[0], &keyShape[0]), make([]byte, plan.WorkspaceSize()+1)
	float := func(data []float32) *C.float { return (*C.float)(unsafe.Pointer(&data[0])) }

	var c, golang []time.Duration
	for block := 0; block < blocks; block++ {
		start := time.Now()
		if C.run_often(inC, float(query), float(key), float(out), unsafe.Pointer(&memory[0]), runs) != 0 {
			panic("a run in C failed")
		}
		c = append(c, time.Since(start)/runs)
		start = time.Now()
		for i := 0; i < runs; i++ {
			buffers := fovea.Buffers{Query: fovea.Slice(query), Key: fovea.Slice(key), Value: fovea.Slice(key),
				Out: fovea.Slice(out)}
			if err := plan.Run(&buffers, workspace); err != nil {
				panic(err)
			}
		}
		golang = append(golang, time.Since(start)/runs)
	}
	fmt.Printf("C %d ns, Go %d ns: %+d ns\n", quick(c), quick(golang), quick(golang)-quick(c))
}

func quick(times []time.Duration) int64 {
	sort.Slice(times, func(i, j int) bool { return times[i] < times[j] })
	return times[len(times)/10].Nanoseconds()
}
