// Package backup keeps backups of disks in a place, which is a directory or an S3 bucket:
//
//	seedbed-target.json                       the format, the size of chunks, and how the place is encrypted
//	chunks/ab/ab12…                           one chunk of a disk, compressed, and encrypted if the place is
//	backups/INSTANCE/BACKUP/disk-N.idx        the names of the chunks of one disk
//	backups/INSTANCE/BACKUP/manifest.json     what the backup is; written last
//
// A chunk's name is a digest of its content, so that what two backups share is there once. A chunk of zeros is not stored. Each backup
// names all of its chunks: any other one can be removed. A backup without a manifest does not exist. Chunks that no index names are swept
// once they are old enough that no backup in progress can be about to name them.
package backup
