// Package rbac finds out which permissions the operator needs for its modules and hooks.
package rbac
