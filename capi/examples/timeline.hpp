// What each rank of an MPI program does over time: waits, agrees, has messages under way; drawn as a picture.
#pragma once

namespace timeline {

// Collective. Between the two the functions of MPI that are replaced in timeline.cpp note when they are called.
void begin();
void end();

// Collective. Rank 0 draws what all noted; whether it could.
bool write_png(const char *path, const char *title);

}  // namespace timeline
