# vcpkg's recipe of the clone it lies in: vcpkg install fovea --overlay-ports=packaging/vcpkg
get_filename_component(SOURCE_PATH "${CURRENT_PORT_DIR}/../../.." ABSOLUTE)

set(FOVEA_THREADS caller)
if("tbb" IN_LIST FEATURES)
  set(FOVEA_THREADS tbb)
endif()

vcpkg_configure_meson(
  SOURCE_PATH "${SOURCE_PATH}"
  OPTIONS -Dthreads=${FOVEA_THREADS})
vcpkg_install_meson()

# Meson builds both libraries; a triplet has one.
if(VCPKG_LIBRARY_LINKAGE STREQUAL "static")
  file(GLOB SURPLUS "${CURRENT_PACKAGES_DIR}/lib/libfovea.so*" "${CURRENT_PACKAGES_DIR}/debug/lib/libfovea.so*")
else()
  file(GLOB SURPLUS "${CURRENT_PACKAGES_DIR}/lib/libfovea.a" "${CURRENT_PACKAGES_DIR}/debug/lib/libfovea.a"
    "${CURRENT_PACKAGES_DIR}/lib/pkgconfig/fovea-static.pc" "${CURRENT_PACKAGES_DIR}/debug/lib/pkgconfig/fovea-static.pc")
endif()
if(SURPLUS)
  file(REMOVE ${SURPLUS})
endif()

vcpkg_fixup_pkgconfig()
file(REMOVE_RECURSE "${CURRENT_PACKAGES_DIR}/debug/include" "${CURRENT_PACKAGES_DIR}/lib/cmake" "${CURRENT_PACKAGES_DIR}/debug/lib/cmake")
vcpkg_install_copyright(FILE_LIST "${SOURCE_PATH}/LICENSE")
