"""Models as ONNX files that run without this package, and a program beside them that shows how."""
