module github.com/xibodev/llmgw-core

go 1.24

require github.com/xibodev/llm-provider-auth v1.0.1
