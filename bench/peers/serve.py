#!/usr/bin/env python3
"""A worker process: serve.py LIBRARY ARGUMENT... serves what library_LIBRARY.make(ARGUMENT...) gives."""
import importlib
import sys

import worker

worker.serve(lambda: importlib.import_module("library_" + sys.argv[1]).make(*sys.argv[2:]))
