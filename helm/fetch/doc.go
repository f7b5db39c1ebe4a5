// Package fetch gets charts of others as 'helm pull' and 'helm dependency build' do: from directories, archives,
// repositories and registries, with Helm's own library, its configuration (HELM_*, repositories.yaml, registry login)
// and its plugins. Everything that arrives is bounded. It writes below the directory that it is given, and nowhere else.
package fetch
