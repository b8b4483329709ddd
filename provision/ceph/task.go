package ceph

import (
	"encoding/json"
	"fmt"
)

// task is an entry in the queue of the managers' module rbd_support. It is stored in the pool, so
// that it survives worker and managers.
type task struct {
	ID       string  `json:"id"`
	Progress float64 `json:"progress"` // 0 to 1
	// Retry is why the last attempt failed; the manager retries by itself.
	Retry string `json:"retry_message"`
	Refs  struct {
		Action string `json:"action"`
		Pool   string `json:"pool_name"`
		Image  string `json:"image_name"`
	} `json:"refs"`
}

// actionFlatten is the action of a task that flattens an image.
const actionFlatten = "flatten"

// findTask returns the task that flattens the image from the managers' answer to "rbd task list",
// or nil.
func findTask(answer []byte, pool, image string) (*task, error) {
	var all []task
	if err := json.Unmarshal(answer, &all); err != nil {
		return nil, fmt.Errorf("answer of the managers' rbd task list: %w", err)
	}
	for i, t := range all {
		if t.Refs.Action == actionFlatten && t.Refs.Pool == pool && t.Refs.Image == image {
			all[i].Progress = min(max(t.Progress, 0), 1)
			return &all[i], nil
		}
	}
	return nil, nil
}
