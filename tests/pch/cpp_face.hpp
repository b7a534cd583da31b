// What the tests of the C++ face include, read once.
#include <algorithm>
#include <cmath>
#include <span>
#include <utility>
#include <vector>

#include "interface/cpp_face.hpp"
