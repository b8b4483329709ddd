package webhook

import (
	"strings"
	"testing"

	"seedbed/internal/httpserve"
)

func TestAttemptHeadersComeOnce(t *testing.T) {
	t.Parallel()
	for name, raw := range map[string]string{
		"two ids":        "webhook-id: a\r\nWebhook-Id: a\r\n\r\n",
		"two timestamps": "webhook-timestamp: 1\r\nWebhook-Timestamp: 1\r\n\r\n",
		"two signatures": "webhook-signature: v1,a\r\nWEBHOOK-SIGNATURE: v1,b\r\n\r\n",
	} {
		if f, err := httpserve.ParseFields([]byte(raw), attemptHeaders...); err == nil {
			t.Errorf("%s: accepted as %v", name, f)
		}
	}
}

func TestAttemptOf(t *testing.T) {
	t.Parallel()
	for _, missing := range []string{HeaderID, HeaderTimestamp, HeaderSignature} {
		f := httpserve.Fields{HeaderID: {vectorID}, HeaderTimestamp: {vectorTimestamp}, HeaderSignature: {vectorSignature}}
		if _, err := attemptOf(f); err != nil {
			t.Fatal(err)
		}
		delete(f, missing)
		if _, err := attemptOf(f); err == nil || !strings.Contains(err.Error(), missing) {
			t.Errorf("without %s: error %v", missing, err)
		}
	}
}
