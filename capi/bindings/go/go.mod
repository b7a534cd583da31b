module fovea

go 1.19
