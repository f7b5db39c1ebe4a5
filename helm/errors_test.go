package helm

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"helm.sh/helm/v3/pkg/storage/driver"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"addon-operator/helm/kinds"
	"addon-operator/helm/manifest"
)

func TestKindOf(t *testing.T) {
	gr := schema.GroupResource{Resource: "configmaps"}
	for _, tt := range []struct {
		name    string
		err     error
		failure failure
		want    Kind
	}{
		{"somebody was faster", fmt.Errorf("x: %w", driver.ErrReleaseExists), failure{}, Conflict},
		{"record changed", fmt.Errorf("x: %w", errTaken), failure{}, Conflict},
		{"another operation", errors.New("another operation (install/upgrade/rollback) is in progress"), failure{}, Conflict},
		{"refused as conflict", errors.New("x"), failure{code: 409}, Conflict},
		{"immutable", errors.New(`cannot patch "d": spec.selector: Invalid value: field is immutable`), failure{code: 422}, Immutable},
		{"StatefulSet", errors.New("Forbidden: updates to statefulset spec for fields other than 'replicas' are forbidden"), failure{code: 422}, Immutable},
		{"unknown kind", &meta.NoKindMatchError{GroupKind: schema.GroupKind{Kind: "X"}}, failure{}, Invalid},
		{"kind went away", errors.New("the server could not find the requested resource"), failure{}, Invalid},
		{"refused object", errors.New("x"), failure{code: 422}, Invalid},
		{"forbidden", errors.New("x"), failure{code: 403}, Invalid},
		{"forbidden read", apierrors.NewForbidden(gr, "a", nil), failure{}, Invalid},
		{"server error", errors.New("x"), failure{code: 500}, Unavailable},
		{"overload", errors.New("x"), failure{code: 429}, Unavailable},
		{"no answer", errors.New("x"), failure{unavailable: true}, Unavailable},
		{"no answer to a read", fmt.Errorf("x: %w", &url.Error{Op: "Get", Err: errors.New("refused")}), failure{}, Unavailable},
		{"server shuts down", apierrors.NewServiceUnavailable("x"), failure{}, Unavailable},
		{"hook failed", errors.New("pre-upgrade hooks failed: job j failed: BackoffLimitExceeded"), failure{}, Failed},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := kindOf(t.Context(), tt.err, tt.failure); got != tt.want {
				t.Errorf("kind = %s, want %s", got, tt.want)
			}
			cancelled, cancel := context.WithCancel(t.Context())
			cancel()
			if got := kindOf(cancelled, tt.err, tt.failure); got != Cancelled {
				t.Errorf("kind = %s after the context ended", got)
			}
		})
	}
}

// Errors keep their cause, lose secrets and length, and give advice.
func TestClassify(t *testing.T) {
	if err := classify(t.Context(), "m", nil, nil); err != nil {
		t.Errorf("no error became %v", err)
	}
	own := problem(Foreign, "m", "x")
	if err := classify(t.Context(), "m", nil, own); !errors.Is(err, own) {
		t.Errorf("an own error became %v", err)
	}
	c := newOffline(t)
	op := offline(t, c)
	objects, err := manifest.Parse("{apiVersion: v1, kind: Secret, data: {word: aHVudGVyMgo=, b: no base64}, stringData: {key: \"BEGIN KEY\\nMIIEow\\n\", yes: yes}}")
	must(t, err)
	op.keepSecrets(objects)
	const quoted = "denied: \"BEGIN KEY\nMIIEow\"; %q; hunter2; aHVudGVyMgo=; no base64; yes"
	denied := classify(t.Context(), "m", op, fmt.Errorf(quoted, "BEGIN KEY\nMIIEow"))
	if want := `release m: denied: "***"; "***"; ***; ***; ***; yes`; denied.Error() != want {
		t.Errorf("error = %s, want %s", denied, want)
	}
	cause := fmt.Errorf("begin %s field is immutable", strings.Repeat("ä", maxErrorText))
	err = classify(t.Context(), "m", op, cause)
	text := err.Error()
	for _, want := range []string{"release m: begin ä", "[…]", "field is immutable; Kubernetes never changes this field"} {
		if !strings.Contains(text, want) {
			t.Errorf("error = %s, want it to contain %q", text, want)
		}
	}
	if len(text) > maxErrorText+500 || !errors.Is(err, cause) {
		t.Errorf("error = %d bytes: %s", len(text), text)
	}
}

// Refusals are remembered until the write succeeds after all.
func TestTransportJudge(t *testing.T) {
	for _, tt := range []struct {
		name    string
		answers []int
		method  string
		want    int
	}{
		{"fine", []int{200, 201}, http.MethodPost, 0},
		{"refused", []int{422}, http.MethodPatch, 422},
		{"refused, another one fine", []int{422, 200}, http.MethodPatch, 422},
		{"conflict", []int{409}, http.MethodPut, 409},
		{"conflict, then fine", []int{409, 200}, http.MethodPut, 0},
		{"deleted already", []int{404}, http.MethodDelete, 0},
		{"not found", []int{404}, http.MethodGet, 0},
		{"server error on read", []int{503}, http.MethodGet, 503},
	} {
		t.Run(tt.name, func(t *testing.T) {
			transport := &boundTransport{ctx: t.Context()}
			for _, code := range tt.answers {
				transport.judge(tt.method, &http.Response{StatusCode: code, Body: http.NoBody})
			}
			if got := transport.failed().code; got != tt.want {
				t.Errorf("failure = %d, want %d", got, tt.want)
			}
		})
	}
}

func TestNewErrors(t *testing.T) {
	if _, err := New(Options{}); err == nil {
		t.Error("New without a configuration is no error")
	}
	_, err := newOffline(t).Apply(t.Context(), Module{Name: strings.Repeat("x", 54)})
	var problem *Error
	if !errors.As(err, &problem) || problem.Kind != Invalid || !strings.Contains(err.Error(), "53 characters") {
		t.Errorf("error = %v", err)
	}
}

// Advice is only given where it is more than the API server says: "forbidden" is not always a permission of the
// operator.
func TestAdviceFollowsTheCause(t *testing.T) {
	for text, want := range map[string]string{
		`pods "a" is forbidden: User "u" cannot create resource "pods" in API group "" in the namespace "n"`: "grant the operator's service account this permission",
		`pods "a" is forbidden: exceeded quota: q, requested: pods=1, used: pods=5, limited: pods=5`:         "",
		`no matches for kind "Thing" in version "example.com/v1"`:                                            "install the CRD",
		`admission webhook "w.example.com" denied the request: no such Service; it cannot be done`:           "",
	} {
		got := adviceFor(Invalid, text)
		if got == "" != (want == "") || !strings.Contains(got, want) {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
}

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
