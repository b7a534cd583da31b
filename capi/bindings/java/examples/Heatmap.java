// Where each word of a sentence looks: one head of a real sentence encoder, drawn with characters.
//
//   ../build.sh heatmap
//
// Runs the layer over two padded sentences and compares with the float64 reference that lies beside the numbers
// (capi/examples/data/README.md). The exit code is 1 if the result is not what it must be.
//
// SPDX-License-Identifier: Apache-2.0
import fovea.AttentionOptions;
import fovea.Context;
import fovea.Fovea;
import fovea.Tensor;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.Locale;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

public final class Heatmap {
  private static final Path FOLDER = Path.of(System.getenv("FOVEA_EXAMPLE_DATA"));

  private record Array(ByteBuffer bytes, long[] shape) {
    float[] floats() {
      float[] out = new float[bytes.remaining() / 4];
      bytes.asFloatBuffer().get(out);
      return out;
    }
  }

  /** Elements and shape of a .npy file of format 1.0. */
  private static Array load(String name, String descr) throws IOException {
    ByteBuffer bytes = ByteBuffer.wrap(Files.readAllBytes(FOLDER.resolve(name))).order(ByteOrder.LITTLE_ENDIAN);
    int begin = 10 + bytes.getShort(8);
    String header = new String(bytes.array(), 0, begin, StandardCharsets.ISO_8859_1);
    Matcher shape = Pattern.compile("\\((.*?)\\)").matcher(header);
    if (!header.startsWith("\u0093NUMPY\1\0") || !header.contains("'descr': '" + descr + "'") || !shape.find())
      throw new IOException(
          name + ": expected a .npy file of format 1.0 with " + descr + " in C order, found " + header);
    long[] sizes = Arrays.stream(shape.group(1).split("[, ]+")).mapToLong(Long::parseLong).toArray();
    return new Array(bytes.position(begin).slice().order(ByteOrder.LITTLE_ENDIAN), sizes);
  }

  private static Tensor tensor(String name) throws IOException {
    Array array = load(name, "<f4");
    return Tensor.of(array.floats(), array.shape());
  }

  private static String shade(float weight) {
    double[] limits = {0.05, 0.15, 0.35, 0.65};
    int shades = (int) Arrays.stream(limits).filter(limit -> weight >= limit).count();
    return "·░▒▓█".substring(shades, shades + 1).repeat(2);
  }

  private static void draw(String[] words, float[] weights, int begin, int length) {
    int longest = Arrays.stream(words).mapToInt(String::length).max().orElse(0);
    for (int letter = 0; letter < longest; ++letter) {
      StringBuilder line = new StringBuilder(" ".repeat(13));
      for (String word : words) line.append(' ').append(letter < word.length() ? word.charAt(letter) : ' ');
      System.out.println(line);
    }
    for (int i = 0; i < words.length; ++i) {
      StringBuilder line = new StringBuilder(String.format("%12s  ", words[i]));
      for (int j = 0; j < words.length; ++j) line.append(shade(weights[begin + i * length + j]));
      System.out.println(line);
    }
  }

  public static void main(String[] args) throws IOException {
    Tensor query = tensor("query.npy"), key = tensor("key.npy"), value = tensor("value.npy");
    int[] lengths = new int[(int) query.shape()[0]];
    load("valid_lens.npy", "<i4").bytes().asIntBuffer().get(lengths);
    int heads = (int) query.shape()[1], length = (int) query.shape()[2];
    float[] weights = new float[lengths.length * heads * length * length];
    AttentionOptions options = new AttentionOptions()
                                   .validLens(Tensor.of(lengths))
                                   .weights(Tensor.of(weights, lengths.length, heads, length, length));
    float[] out = Fovea.sdpa(query, key, value, options).toFloats();

    int sentence = 1, head = 9;
    String[] words = Files.readAllLines(FOLDER.resolve("tokens.txt")).get(sentence).split("\t");
    System.out.println("head " + head + ": how much the word on the left attends to each of the words above");
    draw(words, weights, (sentence * heads + head) * length * length, length);

    ByteBuffer reference = load("out.npy", "<f8").bytes();
    double error = 0;
    for (int i = 0; i < out.length; ++i) error = Math.max(error, Math.abs(out[i] - reference.getDouble(8 * i)));
    System.out.printf(Locale.ROOT, "fovea %s (%s): largest error against float64 %.1e%n", Fovea.version(),
        Context.isaName(null), error);
    if (!(error <= 1e-5)) throw new IllegalStateException("the output is not the reference");
  }
}
