/* A plugin as others build it: a shared object that the archive is linked into. What it exports is fovea's own. */
#include <fovea/fovea.h>

const char *plugin_name(void) { return fovea_version(); }
