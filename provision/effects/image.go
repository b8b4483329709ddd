package effects

import "seedbed"

// The effects on images and uploaded files.
var (
	// ImportImage makes an image from a file on the worker's host, or from an upload.
	ImportImage = Effect[seedbed.ImageSpec, seedbed.ImageInfo]{"import-image"}
	// CheckImport reports whether ImportImage would find the file and could open it.
	CheckImport = Query[seedbed.ImageSpec, ImportCheck]{"check-import"}
	RemoveImage = Order[ImageRef]{"remove-image"}
	// ImageDisk returns how a hypervisor reads an image, which it must not write to.
	ImageDisk  = Query[ImageRef, seedbed.Disk]{"image-disk"}
	DropUpload = Query[UploadRef, None]{"drop-upload"}
)

// ReceiveUpload is the name of the call that receives a file. It is not an effect with arguments:
// the body is a line with a seedbed.UploadSpec followed by the file in Frames, and the answer is
// one Line.
const ReceiveUpload = "receive-upload"

type (
	// ImportCheck is the answer to CheckImport.
	ImportCheck struct {
		// Problem is why the file cannot be imported. It is empty if nothing prevents that so far: what
		// is in the file is only known once it is imported.
		Problem string `json:"problem,omitempty"`
	}
	// ImageRef names an image, or a volume that was restored from the trash.
	ImageRef struct {
		Pool string `json:"pool"`
		Name string `json:"name"`
		// Of is the job that made it; empty means the call's job.
		Of seedbed.JobID `json:"of,omitempty"`
	}
	// UploadRef names an uploaded file.
	UploadRef struct {
		Pool string `json:"pool"`
		ID   string `json:"id"`
	}
)
