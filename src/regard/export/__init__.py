"""Export models as ONNX files that run without this package, with a program that shows how."""
