package hooks

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/validate/content"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
)

// labelSelector reads the selector at p and checks what the schema cannot: the grammar of labels
// and how many values an operator takes. operatorKeys are the keys that may hold the operator of an
// expression (X9). nil means that there is no selector, which selects everything.
func labelSelector(p place, operatorKeys ...string) *metav1.LabelSelector {
	if !p.present() {
		return nil
	}
	selector := &metav1.LabelSelector{}
	labels := p.at("matchLabels")
	if object, ok := labels.value.(map[string]any); ok {
		selector.MatchLabels = make(map[string]string, len(object))
		for name := range object {
			label := labels.at(name)
			selector.MatchLabels[name] = label.text()
			checkSelector(label, &metav1.LabelSelector{MatchLabels: map[string]string{name: label.text()}})
		}
	}
	for _, expression := range p.at("matchExpressions").each() {
		requirement := metav1.LabelSelectorRequirement{
			Key:      expression.at("key").text(),
			Operator: metav1.LabelSelectorOperator(operator(expression, operatorKeys)),
			Values:   expression.at("values").texts(),
		}
		selector.MatchExpressions = append(selector.MatchExpressions, requirement)
		if requirement.Key == "" || !knownOperator(requirement.Operator) {
			continue // the schema has said so
		}
		checkSelector(expression, &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{requirement}})
	}
	return selector
}

// operator reads the operator of an expression from whichever of the keys the hook has used. With
// several keys the schema cannot require one of them, so it is checked here.
func operator(expression place, keys []string) string {
	var found place
	for _, key := range keys {
		switch at := expression.at(key); {
		case !at.present():
		case found.present() && found.text() != at.text():
			at.fail("is %q, but %s is %q; keep one of them", at.text(), found.path, found.text())
		default:
			found = at
		}
	}
	if !found.present() && len(keys) > 1 {
		expression.at(keys[0]).fail("is required: In, NotIn, Exists or DoesNotExist")
	}
	return found.text()
}

func knownOperator(operator metav1.LabelSelectorOperator) bool {
	return slices.Contains([]metav1.LabelSelectorOperator{metav1.LabelSelectorOpIn, metav1.LabelSelectorOpNotIn, metav1.LabelSelectorOpExists, metav1.LabelSelectorOpDoesNotExist}, operator)
}

// checkSelector has the library of Kubernetes check one requirement at a time, so that its error
// gets the right path.
func checkSelector(p place, selector *metav1.LabelSelector) {
	if _, err := metav1.LabelSelectorAsSelector(selector); err != nil {
		p.fail("is not a label selector: %s", strings.ReplaceAll(err.Error(), "\n", " "))
	}
}

// fieldSelector writes the selector at p in the form that the API server reads; "" for none. Its
// operators are a list in the schema, so unknown ones are reported already.
func fieldSelector(p place) string {
	var terms []fields.Selector
	for _, expression := range p.at("matchExpressions").each() {
		field, value := expression.at("field").text(), expression.at("value").text()
		if strings.ContainsAny(field, `=!,\`) { // it would be read as another condition, or as several
			expression.at("field").fail("%s is not the path of a field; write one such as status.phase", show(field))
			continue
		}
		switch expression.at("operator").text() {
		case "=", "==", "Equals":
			terms = append(terms, fields.OneTermEqualSelector(field, value))
		case "!=", "NotEquals":
			terms = append(terms, fields.OneTermNotEqualSelector(field, value))
		}
	}
	if len(terms) == 0 {
		return ""
	}
	return fields.AndSelectors(terms...).String()
}

// objectNames reads a list of names and refuses those that no object can have: a watch for one
// would fail again and again.
func objectNames(p place) []string {
	for _, at := range p.elements() {
		if _, isText := at.value.(string); isText { // else the schema has said so
			checkName(at)
		}
	}
	return p.texts()
}

func checkName(p place) {
	if p.text() == "" {
		p.fail("is an empty name; leave it out")
	} else if problems := content.IsPathSegmentName(p.text()); len(problems) > 0 {
		p.fail("%s cannot be a name: it %s", show(p.text()), strings.Join(problems, ", "))
	}
}

// checkNames refuses a selector on metadata.name together with a list of names: the list becomes
// such a selector itself.
func checkNames(kubernetes place) {
	if len(kubernetes.at("nameSelector").at("matchNames").texts()) == 0 {
		return
	}
	for _, expression := range kubernetes.at("fieldSelector").at("matchExpressions").each() {
		if field := expression.at("field"); field.text() == "metadata.name" {
			field.fail("is metadata.name, which nameSelector already restricts; use one of the two")
		}
	}
}
