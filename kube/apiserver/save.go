package apiserver

import (
	"encoding/json"
	"fmt"
	"os"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// saved is the file of Save: all objects, as they are, managedFields and UIDs included. The next
// server continues the count of versions, so that clients of the first one cannot take an old
// version for a new one.
type saved struct {
	Number  int64         `json:"resourceVersion"`
	Objects []savedObject `json:"objects"`
}

// savedObject has the resource of an object, which does not follow from its kind.
type savedObject struct {
	Group    string         `json:"group,omitempty"`
	Resource string         `json:"resource"`
	Object   map[string]any `json:"object"`
}

// Save writes all objects to a file, for a Load by the next server. Changes during Save are in the
// file as a whole or not at all.
func (s *Server) Save(path string) error {
	objects, number := s.store.asOf(now)
	file := saved{Number: number}
	for k, u := range objects {
		file.Objects = append(file.Objects, savedObject{Group: k.resource.Group, Resource: k.resource.Resource, Object: u.Object})
	}
	data, err := json.Marshal(file)
	if err != nil {
		return err
	}
	return writeFile(path, data)
}

// Load replaces all objects with those that Save has written. Call it before Start. After an error
// the server has a part of the objects, and is of no use. A file that is missing is fs.ErrNotExist.
func (s *Server) Load(path string) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var file saved
	if err := json.Unmarshal(data, &file); err != nil {
		return fmt.Errorf("%s is not a saved cluster; delete it to begin with an empty one: %w", path, err)
	}
	s.store.mu.Lock()
	defer s.store.mu.Unlock()
	clear(s.store.objects)
	for _, o := range file.Objects {
		u := &unstructured.Unstructured{}
		raw, err := json.Marshal(o.Object)
		if err == nil {
			err = u.UnmarshalJSON(raw) // integers stay integers
		}
		if err != nil {
			return fmt.Errorf("%s: %s %s; delete the file to begin with an empty cluster: %w", path, o.Resource, (&unstructured.Unstructured{Object: o.Object}).GetName(), err)
		}
		s.store.objects[key{schema.GroupResource{Group: o.Group, Resource: o.Resource}, u.GetNamespace(), u.GetName()}] = u
	}
	// Watches from before the load get "too old", as after a restart of a real server.
	s.store.number, s.store.history = file.Number, newHistory(file.Number)
	s.store.define()
	return nil
}
