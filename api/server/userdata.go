package server

import (
	"context"
	"encoding/base64"
	"slices"

	"seedbed"
	"seedbed/internal/userdata"

	"github.com/gofiber/fiber/v2"
)

// Forced reports whether a request is to be obeyed although it looks wrong.
func Forced(c *fiber.Ctx) (bool, error) {
	switch given := c.Query("force"); given {
	case "", "false":
		return false, nil
	case "true":
		return true, nil
	default:
		return false, Invalid("force %q: expected true or false", seedbed.Clip(given))
	}
}

// CheckUserData returns ErrInvalid if guests could do nothing with user-data or vendor-data, unless
// the request is forced. what is the message's word for it.
func CheckUserData(ctx context.Context, c *fiber.Ctx, what string, data []byte) error {
	forced, err := Forced(c)
	if err != nil || forced {
		return err
	}
	if problem := UserDataProblem(ctx, data); problem != "" {
		return Invalid("%s %s (force keeps it as it is: --force)", what, problem)
	}
	return nil
}

// CheckParams is like CheckUserData for the documents among the parameters of a request, each as text
// or in base64.
func CheckParams(ctx context.Context, c *fiber.Ctx, params map[string]any) error {
	for _, name := range []string{"user_data", "vendor_data"} {
		text, _ := params[name].(string)
		encoded, _ := params[name+"_base64"].(string)
		decoded, err := base64.StdEncoding.DecodeString(encoded)
		if err != nil {
			decoded = nil // the intake refuses it
		}
		for _, doc := range [][]byte{[]byte(text), decoded} {
			if err := CheckUserData(ctx, c, name, doc); err != nil {
				return err
			}
		}
	}
	return nil
}

// UserDataProblem returns why guests could do nothing with user-data or vendor-data; "" if they can.
// What a template will be is not known.
func UserDataProblem(ctx context.Context, data []byte) string {
	if userdata.Template(data) {
		return ""
	}
	// Larger documents are rare, and parsing one takes many times its size.
	problems, _ := userdata.Checker{Limit: seedbed.MiB}.Check(ctx, data) // without a schema there is no error
	return slices.Concat(problems, []string{""})[0]
}
