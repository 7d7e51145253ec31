// Package codegen stands in for what the provider takes of Pulumi's C# code generator: hints in its schema.
package codegen

type CSharpPackageInfo struct {
	RespectSchemaVersion bool              `json:"respectSchemaVersion,omitempty"`
	PackageReferences    map[string]string `json:"packageReferences,omitempty"`
}
