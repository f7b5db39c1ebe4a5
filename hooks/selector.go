package hooks

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/validate/content"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
)

// labels checks what the schema cannot: the grammar of labels and how many values an operator
// takes. The operator of an expression may be in either of two keys in v0 (X9). nil means that there
// is no selector, which selects everything.
func (r *report) labels(at string, from *writtenLabels) *metav1.LabelSelector {
	if from == nil {
		return nil
	}
	selector := &metav1.LabelSelector{MatchLabels: from.MatchLabels}
	for i, e := range from.MatchExpressions {
		if operator := cmp.Or(e.Operator, e.Operation); operator == "" || e.Operation != "" && e.Operation != operator {
			r.fail(fmt.Sprintf("%s.matchExpressions[%d]", at, i), "needs operator, or its other name operation: one of In, NotIn, Exists and DoesNotExist")
			return nil
		}
		selector.MatchExpressions = append(selector.MatchExpressions, metav1.LabelSelectorRequirement{
			Key: e.Key, Operator: metav1.LabelSelectorOperator(cmp.Or(e.Operator, e.Operation)), Values: once(e.Values),
		})
	}
	if _, err := metav1.LabelSelectorAsSelector(selector); err != nil {
		r.fail(at, "is not a label selector: %s", strings.ReplaceAll(err.Error(), "\n", " "))
	}
	return selector
}

// fields writes a selector in the form that the API server reads; "" for none. Names becomes such a
// selector itself, so metadata.name must not be in both.
func (r *report) fields(at string, from writtenFields, names []string) string {
	var terms []fields.Selector
	for i, e := range from.MatchExpressions {
		field := fmt.Sprintf("%s.matchExpressions[%d].field", at, i)
		switch {
		case strings.ContainsAny(e.Field, `=!,\`): // it would be read as another condition, or as several
			r.fail(field, "%s is not the path of a field; write one such as status.phase", show(e.Field))
		case e.Field == "metadata.name" && len(names) > 0:
			r.fail(field, "is metadata.name, which nameSelector already restricts; use one of the two")
		case e.Operator == "!=" || e.Operator == "NotEquals":
			terms = append(terms, fields.OneTermNotEqualSelector(e.Field, e.Value))
		default:
			terms = append(terms, fields.OneTermEqualSelector(e.Field, e.Value))
		}
	}
	if len(terms) == 0 {
		return ""
	}
	return fields.AndSelectors(terms...).String()
}

// names refuses names that no object can have: a watch for one would fail again and again.
func (r *report) names(at string, names []string) []string {
	for i, name := range names {
		r.name(fmt.Sprintf("%s[%d]", at, i), name)
	}
	return once(names)
}

func (r *report) name(at, name string) {
	if name == "" {
		r.fail(at, "is an empty name; leave it out")
	} else if problems := content.IsPathSegmentName(name); len(problems) > 0 {
		r.fail(at, "%s cannot be a name: it %s", show(name), strings.Join(problems, ", "))
	}
}

// once returns a list without repetitions; nil only for nil.
func once(list []string) []string {
	if list == nil {
		return nil
	}
	found := []string{}
	for _, text := range list {
		if !slices.Contains(found, text) {
			found = append(found, text)
		}
	}
	return found
}
