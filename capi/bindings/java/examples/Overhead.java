// What a small planned call costs here over the C function alone, which the program of ../../node/overhead.c measures:
// both in turns, the quicker tenth of many short blocks; on memory segments, and on arrays, which are copied.
//
//   FOVEA_LIB_DIR=FOLDER ../build.sh overhead
//
// SPDX-License-Identifier: Apache-2.0
import fovea.Buffers;
import fovea.Context;
import fovea.Dtype;
import fovea.Plan;
import fovea.Tensor;
import java.lang.foreign.Arena;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;

public final class Overhead {
  private static final int RUNS = 200, BLOCKS = 400;

  private static long quick(Plan plan, Buffers buffers) {
    double[] times = new double[BLOCKS];
    for (int block = 0; block < BLOCKS; ++block) {
      long start = System.nanoTime();
      for (int i = 0; i < RUNS; ++i) plan.run(buffers);
      times[block] = (double) (System.nanoTime() - start) / RUNS;
    }
    Arrays.sort(times);
    return Math.round(times[BLOCKS / 10]);
  }

  private static String said(List<String> command) throws Exception {
    Process process = new ProcessBuilder(command).redirectError(ProcessBuilder.Redirect.INHERIT).start();
    String text = new String(process.getInputStream().readAllBytes());
    if (process.waitFor() != 0) throw new IllegalStateException(String.join(" ", command) + " failed");
    return text.trim();
  }

  public static void main(String[] args) throws Exception {
    Path here = Path.of(args[0]), program = Files.createTempDirectory("fovea").resolve("overhead");
    String folder = System.getenv("FOVEA_LIB_DIR");
    List<String> compile = new ArrayList<>(
        List.of("cc", "-std=c99", "-O2", here.resolve("../node/overhead.c").toString(), "-o", program.toString()));
    compile.addAll(folder == null
            ? Arrays.asList(said(List.of("pkg-config", "--cflags", "--libs", "fovea")).split("\\s+"))
            : List.of("-I" + here.resolve("../../../include"), "-L" + folder, "-lfovea", "-Wl,-rpath," + folder));
    said(compile);

    try (Context context = Context.of(1); Arena arena = Arena.ofConfined()) {
      Tensor query = Tensor.allocate(arena, Dtype.F32, 2, 5, 4, 20),
             key = Tensor.allocate(arena, Dtype.F32, 2, 5, 6, 20);
      Tensor out = Tensor.allocate(arena, Dtype.F32, 2, 5, 4, 20);
      float[] queries = new float[800], keys = new float[1200], outs = new float[800];
      try (Plan plan = Plan.sdpa(context, query, key, key, out, null)) {
        Buffers segments = new Buffers().query(query.data()).key(key.data()).value(key.data()).out(out.data());
        Buffers arrays = new Buffers().query(queries).key(keys).value(keys).out(outs);
        quick(plan, segments); // until it is compiled
        quick(plan, arrays);
        for (int turn = 0; turn < 3; ++turn) {
          long c = Long.parseLong(said(List.of(program.toString()))), off = quick(plan, segments),
               on = quick(plan, arrays);
          System.out.printf("C %d ns, segments %d ns: %+d ns, arrays %d ns: %+d ns%n", c, off, off - c, on, on - c);
        }
      }
    }
    Files.delete(program);
  }
}
