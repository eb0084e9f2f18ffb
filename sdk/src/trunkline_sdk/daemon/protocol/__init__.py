"""The daemon protocol without I/O: what both sides must agree on (daemon contract, A to D).

`routes` says where things are, `headers` what stands in headers, `timeouts` how a timeout is written, `failures` how a failure reads and what
follows from it, `surfaces` what an operation speaks and when its stream is complete, `fixes` where we do better than the original.
Records of a stream are `trunkline_sdk.sse.Records`.
"""
