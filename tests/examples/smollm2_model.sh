#!/bin/sh
# The example smollm2 on the real model beside float64, where `./dev example smollm2` has put both it and the Python that reads it.
#
#   smollm2_model.sh CHECK PROGRAM FOLDER
#
# Exit code 77, which Meson counts as skipped, where they are not there.
python=$3/venv/bin/python
if ! [ -e "$3/model/model.safetensors" ] || ! "$python" -c 'import numpy, tokenizers' >/dev/null 2>&1; then
  echo "skipped: no model in $3; ./dev example smollm2 puts it there"
  exit 77
fi
exec "$python" -B "$1" "$2" "$3/model"
