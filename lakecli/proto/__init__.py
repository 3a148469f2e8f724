"""lakeFS's protobuf messages: ``graveler.proto`` and what protoc makes of it."""
