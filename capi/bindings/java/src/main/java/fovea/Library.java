// SPDX-License-Identifier: Apache-2.0
package fovea;

import java.lang.foreign.Arena;
import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.Linker;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.SymbolLookup;
import java.lang.invoke.MethodHandle;
import java.nio.file.Files;
import java.nio.file.Path;

/** The C library: where it is found, and how its functions are called. The one class that Java calls restricted. */
@SuppressWarnings("restricted")
final class Library {
  private static final Linker LINKER = Linker.nativeLinker();
  private static final SymbolLookup SYMBOLS = open();

  private Library() {}

  /** The property fovea.library names the file, FOVEA_LIB_DIR its folder; else it is where the system's loader looks. */
  private static SymbolLookup open() {
    String file = System.getProperty("fovea.library"), folder = System.getenv("FOVEA_LIB_DIR");
    if (file != null) return SymbolLookup.libraryLookup(Path.of(file).toAbsolutePath(), Arena.global());
    String[] names = {System.mapLibraryName("fovea") + ".0", System.mapLibraryName("fovea")};
    if (folder != null) {
      for (String name : names) {
        Path path = Path.of(folder, name).toAbsolutePath();
        if (Files.exists(path)) return SymbolLookup.libraryLookup(path, Arena.global());
      }
      throw new UnsatisfiedLinkError("FOVEA_LIB_DIR is " + folder + ", where there is no " + names[1]);
    }
    try {
      return SymbolLookup.libraryLookup(names[0], Arena.global());
    } catch (IllegalArgumentException missing) {
      throw new UnsatisfiedLinkError(names[0] + " is not where the system looks for libraries: install fovea, or set "
          + "FOVEA_LIB_DIR to its folder or the property fovea.library to the file");
    }
  }

  static MethodHandle function(String name, FunctionDescriptor descriptor) {
    MemorySegment address = SYMBOLS.find(name).orElseThrow(
        () -> new UnsatisfiedLinkError("this libfovea is older than the package: it has no " + name));
    return LINKER.downcallHandle(address, descriptor);
  }

  /** What a call through a method handle threw: C functions throw nothing, so this is the virtual machine's own. */
  static RuntimeException unexpected(Throwable thrown) {
    if (thrown instanceof Error error) throw error;
    if (thrown instanceof RuntimeException exception) throw exception;
    throw new AssertionError(thrown);
  }

  /** A C string. */
  static String text(MemorySegment address) {
    return address.equals(MemorySegment.NULL) ? null : address.reinterpret(Long.MAX_VALUE).getString(0);
  }
}
