package hooks

import (
	_ "embed" // the schemas are files of their own so that editors and CI of hook authors can use them
	"encoding/json"
	"errors"
	"strings"
	"sync"

	"addon-operator/values"
)

//go:embed config.v1.schema.json
var configV1Schema []byte

//go:embed config.v0.schema.json
var configV0Schema []byte

// Compiling a schema takes a millisecond, which adds up with hundreds of hooks: so it is done once,
// at the first use.
var (
	formatV1 = sync.OnceValues(func() (*values.Format, error) { return values.NewFormat("hook configurations", configV1Schema) })
	formatV0 = sync.OnceValues(func() (*values.Format, error) { return values.NewFormat("hook configurations", configV0Schema) })
)

// checkShape reports every violation of the schema. An error is one of the operator: the schema is
// part of it.
func (r *report) checkShape(document any, format func() (*values.Format, error)) error {
	schema, err := format()
	if err != nil {
		return err
	}
	for _, v := range schema.Violations(document) {
		r.fail(v.Path, "%s", v.Message)
	}
	return nil
}

// written is a configuration of either protocol that fits its schema, as its author has written it.
type written struct {
	Settings struct {
		ExecutionMinInterval, Timeout string
		ExecutionBurst                int
	}
	Schedule, Kubernetes, OnKubernetesEvent []writtenBinding
}

// writtenBinding has the fields of all bindings. Pointers distinguish absent ones where that matters.
type writtenBinding struct {
	Name, Queue, Group   string
	AllowFailure         flag
	IncludeSnapshotsFrom []string

	Crontab string

	APIVersion, Kind, JQFilter, ResynchronizationPeriod                           string
	ExecuteHookOnEvent, WatchEvent                                                []string
	ExecuteHookOnSynchronization, WaitForSynchronization, KeepFullObjectsInMemory *bool
	NameSelector                                                                  writtenNames
	LabelSelector                                                                 *writtenLabels
	FieldSelector                                                                 writtenFields
	Namespace                                                                     struct {
		NameSelector  writtenNames
		LabelSelector *writtenLabels
	}

	// Of v0 alone.
	Event             []string
	Selector          *writtenLabels
	ObjectName        string
	NamespaceSelector struct {
		MatchNames []string
		Any        flag
	}
}

type writtenNames struct{ MatchNames []string }

type writtenLabels struct {
	MatchLabels      map[string]string
	MatchExpressions []struct {
		Key, Operator, Operation string
		Values                   []string
	}
}

type writtenFields struct {
	MatchExpressions []struct{ Field, Operator, Value string }
}

// flag is also yes, no, on or off in v0, in quotes, too (C21, X32).
type flag bool

// UnmarshalJSON implements json.Unmarshaler. Its schema allows no other words.
func (f *flag) UnmarshalJSON(text []byte) error {
	switch strings.ToLower(strings.Trim(string(text), `"`)) {
	case "yes", "on", "true":
		*f = true
	}
	return nil
}

// decode reads a configuration that fits its schema, and the orders in it.
func decode(document any, into *written, orders map[BindingType]float64) error {
	text, err := values.JSON(document)
	if err != nil {
		return err
	}
	var numbers map[BindingType]json.RawMessage
	err = errors.Join(json.Unmarshal(text, into), json.Unmarshal(text, &numbers))
	for _, binding := range orderBindings() {
		if number, ok := numbers[binding]; ok {
			var order float64
			err = errors.Join(err, json.Unmarshal(number, &order))
			orders[binding] = order
		}
	}
	return err
}
