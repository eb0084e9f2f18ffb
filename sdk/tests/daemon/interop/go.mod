module interop

go 1.24

require (
	github.com/xibodev/llm-provider-auth v1.0.1
	github.com/xibodev/llmgw-core v1.9.1
)
