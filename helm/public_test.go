package helm

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"addon-operator/helm/kinds"
)

// J9: what everybody may read of an error names objects, fields and places, and quotes no value.
func TestPublicErrors(t *testing.T) {
	label := &metav1.Status{Code: 422, Reason: metav1.StatusReasonInvalid, Details: &metav1.StatusDetails{
		Kind: "ConfigMap", Name: "web", Causes: []metav1.StatusCause{
			{Type: metav1.CauseTypeFieldValueInvalid, Field: "metadata.labels", Message: `Invalid value: "hunter2 x"`},
			{Type: metav1.CauseTypeFieldValueInvalid, Field: "spec.ports[1].name", Message: `Invalid value: "hunter2"`},
			{Type: "hunter2 is no word", Field: "data[hunter2 x]", Message: "hunter2"},
		},
	}}
	for _, tt := range []struct {
		name    string
		err     error
		failure failure
		want    string
	}{
		{"refused", errors.New(`ConfigMap "web" is invalid: metadata.labels: Invalid value: "hunter2 x"`), failure{code: 422, refused: label},
			"release m: the API server refuses ConfigMap web (422 Invalid): metadata.labels (FieldValueInvalid), spec.ports[1].name (FieldValueInvalid), data (hunter)"},
		{"immutable", errors.New(`field is immutable: "hunter2"`), failure{code: 422, refused: &metav1.Status{Code: 422, Message: "hunter2"}},
			"release m: the API server refuses the request (422 ); Kubernetes never changes this field: undo the change"},
		{"unknown kind", errors.New(`hunter2: no matches for kind "Foo" in version "foo.io/v1"`), failure{},
			`release m: no matches for kind "Foo" in version "foo.io/v1"; install the CRD`},
		{"Helm hook", errors.New("pre-upgrade hooks failed: 1 error: job migrate failed: BackoffLimitExceeded hunter2"), failure{},
			"release m: job migrate failed: BackoffLimitExceeded"},
		{"anything", errors.New("hunter2"), failure{}, "release m: Helm failed (failed)"},
		{"away", fmt.Errorf("hunter2: %w", &kinds.AwayError{}), failure{}, "release m: " + (&kinds.AwayError{}).Error()},
	} {
		t.Run(tt.name, func(t *testing.T) {
			op := offline(t, newOffline(t))
			op.transport.note(tt.failure)
			wantPublic(t, classify(t.Context(), "m", op, tt.err), tt.want)
		})
	}
	wantPublic(t, problem(Foreign, "m", "ConfigMap web belongs to release n"), "release m: ConfigMap web belongs to release n")
	m := moduleOf(t, "m", "-- templates/a.yaml --\n{{ fail (printf \"conn %s\" .Values.m.conn) }}\n")
	m.Values = map[string]any{"m": map[string]any{"conn": "hunter2"}}
	_, err := renderOffline(t, newOffline(t), m)
	wantPublic(t, err, "m/templates/a.yaml:1")
}

func wantPublic(t *testing.T, err error, want string) {
	t.Helper()
	known, ok := errors.AsType[*Error](err)
	if !ok {
		t.Fatalf("%v is no Error", err)
	}
	if got := known.Public(); !strings.Contains(got, want) || strings.Contains(got, "hunter2") {
		t.Errorf("got %q, want %q", got, want)
	}
}

// The body of a refusal is read twice: for what everybody may read, and by the client.
func TestRefusalIsReadTwice(t *testing.T) {
	const body = `{"kind": "Status", "reason": "Invalid"}`
	resp := &http.Response{StatusCode: http.StatusUnprocessableEntity, Body: io.NopCloser(strings.NewReader(body))}
	transport := &boundTransport{ctx: t.Context()}
	transport.judge(http.MethodPost, resp)
	if refused := transport.failed().refused; refused == nil || refused.Reason != metav1.StatusReasonInvalid {
		t.Errorf("noted %v", refused)
	}
	if again, err := io.ReadAll(resp.Body); string(again) != body || err != nil {
		t.Errorf("the client reads %q, %v", again, err)
	}
}

// J9: what an API server refuses, at the first installation and at an upgrade, for which Helm keeps only the text.
func TestPublicErrorOfRefusedObject(t *testing.T) {
	f := start(t)
	template := "-- templates/a.yaml --\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: web, labels: {conn: {{ .Values.m.conn }}}}\n"
	good, bad := moduleOf(t, "m", template).with("conn", "fine"), moduleOf(t, "m", template).with("conn", "'hunter2 x!'")
	want := "ConfigMap web (422 Invalid): metadata.labels (FieldValueInvalid)"
	wantPublic(t, f.refuse(bad, Invalid), want)
	f.apply(good, Installed, 0)
	wantPublic(t, f.refuse(bad, Invalid), want)
}
