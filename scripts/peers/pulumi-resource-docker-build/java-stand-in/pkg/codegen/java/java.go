// Package java stands in for what the provider takes of Pulumi's Java code generator: hints in its schema.
package java

type PackageInfo struct {
	BuildFiles                      string            `json:"buildFiles,omitempty"`
	GradleNexusPublishPluginVersion string            `json:"gradleNexusPublishPluginVersion,omitempty"`
	Dependencies                    map[string]string `json:"dependencies,omitempty"`
}
