package wire

// ErrorKind is the header by which an error on one of PVC's paths says its kind, as
// seedbed.KindName has it. PVC's own answer has a message only, and the status 400 for
// much that other APIs tell apart.
const ErrorKind = "Seedbed-Error"
