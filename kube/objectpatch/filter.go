package objectpatch

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"time"

	"addon-operator/jq"
)

// filterLimit bounds one application of a filter: a jq program need not end. It is far above what
// any useful filter takes, because after it the whole operation fails.
const filterLimit = 10 * time.Second

var errNotOne = errors.New("it must return exactly one object")

// Transform applies a filter that has to make exactly one object of an object, as the filter of a JQPatch does. The
// object stays as it is, and shares nothing with the result. It checks only that the result is a map: whether it is
// still the same object is for the caller.
func Transform(ctx context.Context, filter *jq.Program, object map[string]any) (next map[string]any, err error) {
	text, err := json.Marshal(object)
	if err != nil {
		return nil, err
	}
	// jq has numbers of its own. As json.Number, those that the filter does not touch keep each
	// digit.
	var input any
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	if err := decoder.Decode(&input); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, filterLimit)
	defer cancel()
	text = nil
	for result, err := range filter.Results(ctx, input) {
		if err == nil && text != nil {
			err = errNotOne
		}
		if err == nil {
			text, err = jq.Marshal(result)
		}
		if err != nil {
			return nil, err
		}
	}
	if err := decode(text, &next); err != nil || next == nil {
		return nil, errNotOne
	}
	return next, nil
}
