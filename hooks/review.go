package hooks

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	jsonpatch "github.com/evanphx/json-patch/v5"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/util/validation"
)

// The bindings for webhook requests (chapter O): about a write, and for objects in another version. Their
// runs belong to no queue (O5), and write an answer.
const (
	OnValidating BindingType = "kubernetesValidating"
	OnMutating   BindingType = "kubernetesMutating"
	OnConversion BindingType = "kubernetesCustomResourceConversion"
)

// The context types of chapter O.
const (
	TypeValidating ContextType = "Validating"
	TypeMutating   ContextType = "Mutating"
	TypeConversion ContextType = "Conversion"
)

// defaultReview is timeoutSeconds of a binding that sets none, as in Kubernetes.
const defaultReview = 10 // seconds

// Review is an element of a kubernetesValidating or kubernetesMutating binding (O1).
type Review struct {
	Binding
	Type BindingType // OnValidating or OnMutating
	// Webhook is its entry in the configuration, without clientConfig. That of OnValidating has the same fields.
	Webhook admissionv1.MutatingWebhook
}

// Conversion is an element of a kubernetesCustomResourceConversion binding (O6).
type Conversion struct {
	Binding
	CRD   string
	Steps []ConversionStep
}

// ConversionStep are two versions with their group: group/version.
type ConversionStep struct{ From, To string }

// HasWebhooks reports whether the API server asks the hook.
func (c *Config) HasWebhooks() bool { return c != nil && len(c.Reviews)+len(c.Conversions) > 0 }

// Review returns the binding with this type and name; nil for none.
func (c *Config) Review(of BindingType, name string) *Review {
	for i, r := range c.Reviews {
		if r.Type == of && r.Name == name {
			return &c.Reviews[i]
		}
	}
	return nil
}

// CheckWebhookNames refuses hooks of one owner that have webhooks of the same name: names are unique in a
// configuration.
func CheckWebhookNames(all []Hook) error {
	seen := map[string]string{}
	for _, hook := range all {
		for _, r := range hook.Config.Reviews {
			webhook := string(r.Type) + " " + r.Name
			if other := seen[webhook]; other != "" {
				return fmt.Errorf("hook %s: %s is a binding of %s, too; give it another name", hook.Name, webhook, other)
			}
			seen[webhook] = hook.Name
		}
	}
	return nil
}

type writtenReview struct {
	Name, Group          string
	IncludeSnapshotsFrom []string
	LabelSelector        *writtenLabels
	Namespace            struct{ LabelSelector *writtenLabels }
	Rules                []admissionv1.RuleWithOperations
	FailurePolicy        *admissionv1.FailurePolicyType
	SideEffects          *admissionv1.SideEffectClass
	ReinvocationPolicy   *admissionv1.ReinvocationPolicyType
	TimeoutSeconds       *int32
	MatchConditions      []admissionv1.MatchCondition
}

type writtenConversion struct {
	Name, Group, CRDName string
	IncludeSnapshotsFrom []string
	Conversions          []struct{ FromVersion, ToVersion string }
}

func (r *report) review(at string, of BindingType, from writtenReview) Review {
	if len(validation.IsFullyQualifiedName(nil, from.Name)) > 0 {
		r.fail(at+".name", "must be a domain name of three parts or more, such as image-policy.example.com, not %s", show(from.Name))
	}
	return Review{
		Binding: Binding{Name: from.Name, Group: from.Group, Snapshots: once(from.IncludeSnapshotsFrom)}, Type: of,
		Webhook: admissionv1.MutatingWebhook{
			Name: from.Name, Rules: from.Rules, MatchConditions: from.MatchConditions, ReinvocationPolicy: from.ReinvocationPolicy,
			FailurePolicy:     cmp.Or(from.FailurePolicy, new(admissionv1.Fail)),
			SideEffects:       cmp.Or(from.SideEffects, new(admissionv1.SideEffectClassNone)),
			TimeoutSeconds:    cmp.Or(from.TimeoutSeconds, new(int32(defaultReview))),
			ObjectSelector:    r.labels(at+".labelSelector", from.LabelSelector),
			NamespaceSelector: r.labels(at+".namespace.labelSelector", from.Namespace.LabelSelector),
		},
	}
}

func (r *report) conversion(at string, from writtenConversion) Conversion {
	_, group, _ := strings.Cut(from.CRDName, ".")
	if group == "" {
		r.fail(at+".crdName", "must be the name of a CustomResourceDefinition, such as crontabs.example.com, not %s", show(from.CRDName))
	}
	name := cmp.Or(from.Name, string(OnConversion))
	c := Conversion{Binding: Binding{Name: name, Group: from.Group, Snapshots: once(from.IncludeSnapshotsFrom)}, CRD: from.CRDName}
	complete := func(at, version string) string {
		of, _, whole := strings.Cut(version, "/")
		switch {
		case !whole:
			return group + "/" + version
		case of != group:
			r.fail(at, "is of another group than the CRD; write a version of %s", group)
		}
		return version
	}
	for i, step := range from.Conversions {
		at := fmt.Sprintf("%s.conversions[%d]", at, i)
		one := ConversionStep{complete(at+".fromVersion", step.FromVersion), complete(at+".toVersion", step.ToVersion)}
		if one.From == one.To {
			r.fail(at+".toVersion", "is the same as fromVersion; leave this step out")
		}
		c.Steps = append(c.Steps, one)
	}
	return c
}

// readAsked reads the bindings of chapter O; those of kubernetes must be complete.
func (r *report) readAsked(from written, config *Config) {
	for of, list := range map[BindingType][]writtenReview{OnValidating: from.KubernetesValidating, OnMutating: from.KubernetesMutating} {
		for i, one := range list {
			at := fmt.Sprintf("%s[%d]", of, i)
			review := r.review(at, of, one)
			r.resolveSnapshots(at, &review.Binding, config.Kubernetes)
			if config.Review(of, one.Name) != nil {
				r.fail(at+".name", "is the name of another webhook of this hook, too; give each a unique name")
			}
			config.Reviews = append(config.Reviews, review)
		}
	}
	slices.SortStableFunc(config.Reviews, func(a, b Review) int { return cmp.Compare(a.Type, b.Type) })
	for i, one := range from.KubernetesCustomResourceConversion {
		at := fmt.Sprintf("%s[%d]", OnConversion, i)
		conversion := r.conversion(at, one)
		r.resolveSnapshots(at, &conversion.Binding, config.Kubernetes)
		config.Conversions = append(config.Conversions, conversion)
	}
}

// The files of answers (O4, O7). Hooks of other operators know that of a review by several names.
const (
	envReview     = "ADMISSION_RESPONSE_PATH"
	envConversion = "CONVERSION_RESPONSE_PATH"
)

// Response is what a hook has answered to a webhook request.
type Response struct {
	// Of a review.
	Allowed  bool            `json:"allowed"`
	Message  string          `json:"message"`
	Warnings []string        `json:"warnings"`
	Patch    json.RawMessage `json:"patch"` // a JSON patch, a list of operations; nil for none
	// Of a conversion.
	Objects []json.RawMessage `json:"convertedObjects"`
	Failed  string            `json:"failedMessage"` // why it has failed; "" when it has not
}

// asks is the type of the request that a run answers; one of others for none.
func asks(run Run) ContextType {
	if len(run.Contexts) == 0 {
		return ""
	}
	return run.Contexts[0].Type
}

// answers reports whether a run is asked for an answer, for which somebody waits.
func answers(of ContextType) bool {
	return of == TypeConversion || of == TypeValidating || of == TypeMutating
}

// nameResponse names the file for the answer, which the hook makes.
func nameResponse(dir *runDir, of ContextType) {
	switch of {
	case TypeConversion:
		dir.name(envConversion, envConversion)
	case TypeValidating, TypeMutating:
		for _, name := range []string{envReview, "VALIDATING_RESPONSE_PATH", "MUTATING_RESPONSE_PATH"} {
			dir.name(name, envReview)
		}
	}
}

// readResponse reads the answer; nil for a run that is asked for none.
func readResponse(dir *runDir, of ContextType) (*Response, error) {
	var variable string
	parse := ParseReview
	switch of {
	case TypeConversion:
		variable, parse = envConversion, ParseConversion
	case TypeValidating, TypeMutating:
		variable = envReview
	default:
		return nil, nil
	}
	data, err := dir.result(variable)
	if err != nil {
		return nil, err
	}
	answer, err := parse(data)
	if err == nil && of == TypeValidating && answer.Patch != nil {
		err = errors.New("patch: only kubernetesMutating may change the object")
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", variable, err)
	}
	return answer, nil
}

// ParseReview reads the answer to a review: whether it is allowed, which must be there, and what else O4 lists. patch
// is a JSON patch, or one in base64.
func ParseReview(data []byte) (*Response, error) {
	var given struct {
		Response
		Allowed *bool `json:"allowed"` // in place of that of Response: it must be there
	}
	answer := &given.Response
	switch err := json.Unmarshal(data, &given); {
	case len(bytes.TrimSpace(data)) == 0:
		return nil, errors.New(`the hook wrote nothing; write {"allowed": true}, or {"allowed": false, "message": "why"}`)
	case err != nil:
		return nil, fmt.Errorf("%s is no answer: %w", shorten(data, 80), err)
	case given.Allowed == nil:
		return nil, fmt.Errorf("%s has no allowed; write true or false there", shorten(data, 80))
	}
	answer.Allowed = *given.Allowed
	var text string
	if json.Unmarshal(answer.Patch, &text) == nil { // null, too
		decoded, err := base64.StdEncoding.DecodeString(text)
		if answer.Patch = decoded; err != nil {
			return nil, fmt.Errorf("patch: it is no base64: %w", err)
		}
	}
	if len(bytes.TrimSpace(answer.Patch)) == 0 {
		answer.Patch = nil
		return answer, nil
	}
	if _, err := jsonpatch.DecodePatch(answer.Patch); err != nil {
		return nil, fmt.Errorf("patch: it must be a list of JSON patch operations: %w", err)
	}
	return answer, nil
}

// Patched returns an object with the patch of the answer, as the API server applies it.
func (r *Response) Patched(object []byte) ([]byte, error) {
	if r.Patch == nil {
		return object, nil
	}
	patch, err := jsonpatch.DecodePatch(r.Patch)
	if err == nil {
		object, err = patch.Apply(object)
	}
	if err != nil {
		return nil, fmt.Errorf("MUTATING_RESPONSE_PATH: patch: %w", err)
	}
	return object, nil
}

// ParseConversion reads the answer to a conversion: objects, or why there are none (O7).
func ParseConversion(data []byte) (*Response, error) {
	answer := &Response{}
	switch err := json.Unmarshal(data, answer); {
	case len(bytes.TrimSpace(data)) == 0:
		return nil, errors.New(`the hook wrote nothing; write {"convertedObjects": […]}, or {"failedMessage": "why"}`)
	case err != nil:
		return nil, fmt.Errorf("%s is no answer: %w", shorten(data, 80), err)
	case answer.Objects == nil && answer.Failed == "":
		return nil, fmt.Errorf("%s has neither convertedObjects nor failedMessage", shorten(data, 80))
	}
	return answer, nil
}

// CheckConverted refuses an answer of other objects than those that were asked for: their number, order, kind and
// version, name, namespace and uid. Of other metadata the API server takes labels and annotations only.
func CheckConverted(before, after []json.RawMessage, to string) error {
	if len(before) != len(after) {
		return fmt.Errorf("convertedObjects has %d objects instead of %d", len(after), len(before))
	}
	type object struct {
		APIVersion, Kind string
		Metadata         map[string]any
	}
	for i := range before {
		var was, is object
		if err := errors.Join(json.Unmarshal(before[i], &was), json.Unmarshal(after[i], &is)); err != nil {
			return fmt.Errorf("convertedObjects[%d]: %w", i, err)
		}
		switch {
		case is.APIVersion != to:
			return fmt.Errorf("convertedObjects[%d].apiVersion is %s, not %s", i, show(is.APIVersion), to)
		case is.Kind != was.Kind:
			return fmt.Errorf("convertedObjects[%d].kind is %s, not %s: keep the order of the objects", i, show(is.Kind), was.Kind)
		}
		for _, field := range []string{"namespace", "name", "uid"} {
			if !reflect.DeepEqual(was.Metadata[field], is.Metadata[field]) {
				return fmt.Errorf("convertedObjects[%d].metadata.%s is %s, not %s: keep it, and the order of the objects",
					i, field, show(is.Metadata[field]), show(was.Metadata[field]))
			}
		}
	}
	return nil
}
