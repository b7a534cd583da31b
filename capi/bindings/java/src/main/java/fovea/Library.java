// SPDX-License-Identifier: Apache-2.0
package fovea;

import java.lang.foreign.Arena;
import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.Linker;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.SymbolLookup;
import java.lang.foreign.ValueLayout;
import java.lang.invoke.MethodHandle;
import java.nio.file.Path;
import java.util.Arrays;

/** The C library: where it is found, and how its functions are called. The one class that Java calls restricted. */
@SuppressWarnings("restricted")
final class Library {
  private static final Linker LINKER = Linker.nativeLinker();
  private static final SymbolLookup SYMBOLS = open();
  private static final MethodHandle WORK =
      LINKER.downcallHandle(FunctionDescriptor.ofVoid(ValueLayout.ADDRESS, ValueLayout.JAVA_LONG));

  private Library() {}

  /**
   * The property fovea.library names the file, FOVEA_LIB_DIR its folder; else it is where the system's loader looks.
   */
  private static SymbolLookup open() {
    String file = System.getProperty("fovea.library"), folder = System.getenv("FOVEA_LIB_DIR");
    String name = System.mapLibraryName("fovea") + ".0";
    try {
      if (file != null) return SymbolLookup.libraryLookup(Path.of(file).toAbsolutePath(), Arena.global());
      if (folder != null) return SymbolLookup.libraryLookup(Path.of(folder, name).toAbsolutePath(), Arena.global());
      return SymbolLookup.libraryLookup(name, Arena.global());
    } catch (IllegalArgumentException missing) {
      String looked = name + ", which is looked for where the system has libraries, in FOVEA_LIB_DIR or as fovea.library,";
      if (folder != null) looked = name + " in " + folder + ", which FOVEA_LIB_DIR names,";
      if (file != null) looked = file + ", which the property fovea.library names,";
      throw new UnsatisfiedLinkError(looked + " cannot be loaded: " + missing.getMessage());
    }
  }

  static MethodHandle function(String name, FunctionDescriptor descriptor) {
    MemorySegment address = SYMBOLS.find(name).orElseThrow(
        () -> new UnsatisfiedLinkError("this libfovea is older than the package: it has no " + name));
    return LINKER.downcallHandle(address, descriptor);
  }

  /** The same with pins behind its arguments, as an array of that length. */
  static MethodHandle pinning(String name, FunctionDescriptor descriptor, int pins) {
    ValueLayout[] more = new ValueLayout[pins];
    Arrays.fill(more, ValueLayout.ADDRESS);
    return function(name, descriptor.appendArgumentLayouts(more)).asSpreader(MemorySegment[].class, pins);
  }

  /** The address of a function that C may call, until the arena is closed. */
  static MemorySegment callback(MethodHandle target, FunctionDescriptor descriptor, Arena arena) {
    return LINKER.upcallStub(target, descriptor, arena);
  }

  /** Calls a fovea_work. */
  static void work(MemorySegment function, MemorySegment data, long index) {
    try {
      WORK.invokeExact(function, data, index);
    } catch (Throwable thrown) {
      throw unexpected(thrown);
    }
  }

  /** What a call through a method handle threw: C functions throw nothing, so this is the virtual machine's own. */
  static RuntimeException unexpected(Throwable thrown) {
    if (thrown instanceof Error error) throw error;
    if (thrown instanceof RuntimeException exception) throw exception;
    throw new AssertionError(thrown);
  }

  /** Memory of the library's, which somebody keeps for it: for good, or until it is let go when no segment of it is left. */
  static MemorySegment memory(MemorySegment address, long size, Runnable letGo) {
    if (letGo == null) return address.reinterpret(size);
    return address.reinterpret(size, Arena.ofAuto(), gone -> letGo.run());
  }

  interface Describe {
    long of(MemorySegment object, MemorySegment text, long size);
  }

  /** What a function writes about an object, and tells the length of. */
  static String described(MemorySegment object, Describe describe) {
    try (Arena arena = Arena.ofConfined()) {
      long size = describe.of(object, MemorySegment.NULL, 0) + 1;
      MemorySegment text = arena.allocate(size);
      describe.of(object, text, size);
      return text.getString(0);
    }
  }

  /** A C string. */
  static String text(MemorySegment address) {
    return address.equals(MemorySegment.NULL) ? null : address.reinterpret(Long.MAX_VALUE).getString(0);
  }
}
