package forward

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/streaming/pkg/httpstream"
)

// refusing is a connection to a kubelet that gives up, because nothing listens in the Pod, before it has answered to the stream for data.
type refusing struct{ httpstream.Connection }

func (refusing) CreateStream(headers http.Header) (httpstream.Stream, error) {
	if headers.Get(corev1.StreamType) == corev1.StreamTypeData {
		return nil, errors.New("Stream reset")
	}
	return problem{text: strings.NewReader("dial tcp 127.0.0.1:9115: connection refused")}, nil
}

// problem is the stream on which the kubelet says why.
type problem struct {
	httpstream.Stream
	text *strings.Reader
}

func (p problem) Read(to []byte) (int, error) { return p.text.Read(to) }

func (problem) Close() error { return nil }

func TestReasonOfAStreamThatIsReset(t *testing.T) {
	t.Parallel()
	_, err := open(refusing{}, 9115)
	if err == nil || !strings.Contains(err.Error(), "connection refused") {
		t.Errorf("the error is %v, want the reason of the kubelet", err)
	}
}
