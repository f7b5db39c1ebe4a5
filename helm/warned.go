package helm

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"

	utilnet "k8s.io/apimachinery/pkg/util/net"
)

const (
	// maxWarned is how many warnings of one operation are logged: a chart may have thousands of
	// objects.
	maxWarned = 20
	// maxNamed bounds how much of a request is read to find out which object it creates.
	maxNamed = 4 << 20
)

// warned logs the warnings of the API server about the objects of a release, such as unknown fields
// (J13). It belongs to the transport of an operation, because a WarningHandler of client-go does
// not get the request, and so could not name the object.
type warned struct {
	log   *slog.Logger
	mu    sync.Mutex
	known map[[2]string]bool // object and text of what was logged; empty ones for the last line
}

func newWarned(log *slog.Logger) *warned {
	return &warned{log: log, known: map[[2]string]bool{}}
}

// logWarnings logs the warnings in an answer. With the attribute err the log repeats them at growing
// intervals.
func (w *warned) logWarnings(req *http.Request, header http.Header) {
	if w == nil || len(header["Warning"]) == 0 {
		return
	}
	warnings, _ := utilnet.ParseWarningHeaders(header["Warning"]) // what can be read is enough
	for _, found := range warnings {
		const persistent = 299 // the only code Kubernetes uses
		if found.Code == persistent && found.Text != "" {
			w.logWarning(requested(req), found.Text)
		}
	}
}

func (w *warned) logWarning(object, text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.known[[2]string{object, text}], len(w.known) > maxWarned:
		return
	case len(w.known) == maxWarned:
		w.known[[2]string{}] = true
		w.log.Warn("the API server returned warnings for more objects of the release; fix the objects of the earlier warnings first", "err", fmt.Sprintf("more than %d warnings", maxWarned))
		return
	}
	w.known[[2]string{object, text}] = true
	w.log.Warn("the API server returned a warning for an object of the release", "object", object, "err", text)
}

// requested names the object of a request: its resource, as in "deployments.apps default/web". A
// request that creates has no name in its path; its body has.
func requested(req *http.Request) string {
	parts := strings.Split(strings.Trim(req.URL.Path, "/"), "/")
	group, namespace := "", ""
	switch {
	case len(parts) > 2 && parts[0] == "api": // api/v1/…
		parts = parts[2:]
	case len(parts) > 3 && parts[0] == "apis": // apis/GROUP/VERSION/…
		group, parts = "."+parts[1], parts[3:]
	default:
		return req.URL.Path
	}
	if len(parts) > 2 && parts[0] == "namespaces" {
		namespace, parts = parts[1]+"/", parts[2:]
	}
	name := "?"
	if len(parts) > 1 {
		name = parts[1]
	} else if created := created(req); created != "" {
		name = created
	}
	return parts[0] + group + " " + namespace + name
}

// created is the name of the object that a request creates, from the start of its body; empty when
// that cannot be read again, is too long or is no JSON.
func created(req *http.Request) string {
	if req.GetBody == nil {
		return ""
	}
	body, err := req.GetBody()
	if err != nil {
		return ""
	}
	defer body.Close()
	var object struct {
		Metadata struct{ Name, GenerateName string }
	}
	if json.NewDecoder(io.LimitReader(body, maxNamed)).Decode(&object) != nil {
		return ""
	}
	if object.Metadata.Name == "" && object.Metadata.GenerateName != "" {
		return object.Metadata.GenerateName + "*"
	}
	return object.Metadata.Name
}
