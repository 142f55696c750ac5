#!/bin/sh
# cached.sh COMPILER ARGUMENT...: compiles through ccache, but for headers that are compiled ahead of all else.
# Such a file remembers when the headers in it were written; one from the cache, of headers with the same text and
# another time, would have them read twice.
case " $* " in *" c++-header "*) exec "$@" ;; esac
# Without these ccache passes by every file that uses a precompiled header.
CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime
export CCACHE_SLOPPINESS
exec ccache "$@"
