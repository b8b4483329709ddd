package wire

// ErrorKind is the header that names the kind of an error on one of PVC's paths, as
// seedbed.KindName returns it. PVC's own answer has only a message, and the status 400 for errors
// that other APIs distinguish.
const ErrorKind = "Seedbed-Error"
