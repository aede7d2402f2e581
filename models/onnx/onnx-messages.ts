/**
 * @file The messages of ONNX files, with the fields that are read or written here.
 *
 * Field numbers are those of onnx.proto, which never change. Attributes' texts are bytes there, which are the same on the wire.
 * The data of tensors in other fields than `raw` is only ever passed on.
 */

import {
  blob,
  blobs,
  float,
  floats,
  int32,
  int64,
  int64s,
  message,
  text,
  texts,
} from "./protobuf-message.ts";

/** ModelProto. */
export const MODEL = message({
  irVersion: int64(1),
  producer: text(2),
  graph: blobs(7),
  opsets: blobs(8),
});
/** The number of the graph in a ModelProto: all other fields are the header. */
export const GRAPH_FIELD = 7;

/** OperatorSetIdProto. */
export const OPSET = message({ domain: text(1), version: int64(2) });

/** GraphProto. */
export const GRAPH = message({
  nodes: blobs(1),
  name: text(2),
  initializers: blobs(5),
  inputs: blobs(11),
  outputs: blobs(12),
  valueInfos: blobs(13),
  sparseInitializers: blobs(15),
});

/** NodeProto. */
export const NODE = message({
  inputs: texts(1),
  outputs: texts(2),
  name: text(3),
  op: text(4),
  attributes: blobs(5),
  domain: text(7),
});
export const NODE_NAME_FIELD = 3;

/** AttributeProto. */
export const ATTRIBUTE = message({
  name: text(1),
  float: float(2),
  int: int64(3),
  string: text(4),
  tensor: blob(5),
  graph: blob(6),
  floats: floats(7),
  ints: int64s(8),
  strings: texts(9),
  tensors: blobs(10),
  graphs: blobs(11),
  type: int32(20),
});

/** AttributeProto.AttributeType. */
export const ATTRIBUTE_TYPES = Object.freeze({
  float: 1,
  int: 2,
  string: 3,
  floats: 6,
  ints: 7,
  strings: 8,
});

/** TensorProto. */
export const TENSOR = message({
  dims: int64s(1),
  type: int32(2),
  name: text(8),
  raw: blob(9),
  externalData: blobs(13),
  location: int32(14),
});
export const TENSOR_NAME_FIELD = 8;
/** TensorProto.DataLocation: in a file beside the model. */
export const EXTERNAL = 1;

/** SparseTensorProto; its values are a tensor with the name of the whole. */
export const SPARSE_TENSOR = message({ values: blob(1), dims: int64s(3) });

/** ValueInfoProto. */
export const VALUE_INFO = message({ name: text(1), type: blob(2) });
/** TypeProto, of a tensor. */
export const TYPE = message({ tensor: blob(1) });
/** TypeProto.Tensor. */
export const TENSOR_TYPE = message({ element: int32(1), shape: blob(2) });
/** TensorShapeProto. */
export const SHAPE = message({ dims: blobs(1) });
/** TensorShapeProto.Dimension: a size, or the name of one that is open. */
export const DIMENSION = message({ value: int64(1), name: text(2) });
