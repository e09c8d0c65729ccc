/* The headers that most test programs include. The compiler reads them once, into pch.h.gch, because
 * reading GoogleTest takes half of the time that a test needs to compile. */
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>
