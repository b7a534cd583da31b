// doctest itself, compiled once for all test programs but those over tiles, whose signals it must leave alone.
#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>
