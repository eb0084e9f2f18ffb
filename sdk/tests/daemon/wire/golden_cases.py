"""What is put to Go's encoding/json and to ours: a kind of message, and bytes to read as one.

Not here, since no peer writes it and the contract calls it an error: times that Go takes beyond RFC 3339 (`T3:04:05`, `05,5`, `+24:00`).
Neither is a repeated key whose last value is null, which Go passes over.
"""

CASES: list[tuple[str, str]] = [
    # ------------------------------------------------------------------------------------ nothing
    *((kind, data) for kind in (
        "InfoResponse", "ModelsResponse", "ModelInfo", "RefreshRequest", "RefreshResponse", "OAuthStartRequest", "OAuthStartResponse",
        "OAuthPollRequest", "OAuthPollResponse", "OAuthExchangeRequest", "OAuthExchangeResponse", "ErrorResponse", "Record", "Flow",
        "Authorization", "Loss",
    ) for data in ("", "null", "{}", "[]", "7", "{} {}", "{")),
    # ------------------------------------------------------------------------------------ everything
    ("InfoResponse", ('{"version":"1","providers":[{"id":"a","name":"A","surfaces":["responses","x"],"has_oauth":true,"has_refresh":true,'
     '"credential":"oauth","oauth_methods":["device","telepathy"]},{"id":"b","surfaces":["messages"],"oauth_methods":[]}],"more":{}}')),
    ("ModelsResponse", ('{"models":[{"id":"m","object":"model","created":1700000000,"owned_by":"o","description":"d","tags":["t"],'
     '"display_name":"M","vendor":"v","free":true,"api_eligible":true,"api_visibility":"x","supported_apis":["/v1/responses"],'
     '"capabilities":{"schema_version":1,"operations":{"chat":"supported","video":"unsupported"},"surfaces":{"messages":"supported"},'
     '"inputs":{"image":"unsupported"},"tools":"supported","limits":{"context_tokens":8192,"max_output_tokens":0},'
     '"provenance":{"source":"inferred","confidence":"medium"},"freshness":{"expires_at":"2026-01-02T03:04:05Z"}},'
     '"legacy_capabilities":{"tts":true,"a":null,"n":1,"l":["x"]}}]}')),
    ("Record", ('{"Revision":"r","AccessToken":"a","RefreshToken":"b","IDToken":"c","TokenType":"Bearer","Expiry":"2026-01-02T03:04:05Z",'
     '"AccountID":"d","Metadata":{"b":"2","a":"1","<&>":"<\u2028>"}}')),
    ("Flow", ('{"ID":"f","Caller":{"id":"u","kind":"human","project_id":"p"},"Instance":"i","Method":"device",'
     '"CreatedAt":"2026-01-02T03:04:05.5+02:00","ExpiresAt":"2026-01-02T03:14:05-07:30","Revision":"1","ConsumedAt":null,'
     '"Progress":{"Interval":5000000000,"NextPollAt":"2026-01-02T03:04:10.123456Z","Outcome":"o","CredentialKey":"k"},'
     '"Secrets":{"Verifier":"v","State":"s","DeviceCode":"d","RedirectURI":"r","DriverData":{"a":"b"},"Params":{"c":"d"}}}')),
    ("OAuthStartResponse", '{"authorization":{"AuthorizationURL":"https://p/a?x=1&y=2","UserCode":"AB","Interval":5000000000}}'),
    ("OAuthPollResponse", '{"result":{"Status":"approved","Record":{"AccessToken":"t"}}}'),
    ("OAuthStartRequest", '{"method":"device","redirect_uri":"http://l/cb","params":{"b":"2","a":"1"}}'),
    ("OAuthExchangeRequest", '{"code":"c","flow":{"Secrets":{"Verifier":"v"}}}'),
    ("ErrorResponse", '{"error":{"message":"m","code":404,"hint":"x"}}'),
    ("Loss", '{"path":"p","class":"dropped","severity":"material","detail":"d"}'),
    # ------------------------------------------------------------------------------------ spelling
    ("Record", '{"ACCESSTOKEN":"a","accessToken":"b","id_token":"no","idtoken":"c","accountid":"d"}'),
    ("Record", '{"AccessTo\u212aen":"kelvin","acce\u017f\u017ftoken":"long s"}'),
    ("RefreshResponse", '{"Terminal":true,"ERROR":"e","RECORD":{"expiry":"2026-01-02T03:04:05Z"}}'),
    ("Record", '{"AccessToken":"\\u0041\\ud83d\\ude00\\ud800\\"\\/\\b"}'),
    ("Record", '{"AccessToken":"a","AccountID":"d","AccessToken":"b"}'),
    # ------------------------------------------------------------------------------------ wrong types: the rest is read
    ("RefreshResponse", '{"error":{"message":"m"},"terminal":true}'),
    ("RefreshResponse", '{"terminal":true,"error":["m"],"record":{"AccessToken":"a"}}'),
    ("RefreshResponse", '{"terminal":"true","error":"e"}'),
    ("RefreshResponse", '{"record":7,"error":"e"}'),
    ("Record", '{"AccessToken":7,"RefreshToken":"r","Metadata":{"a":1,"b":"2"}}'),
    ("Record", '{"Metadata":["a"],"AccountID":"d"}'),
    ("Record", '{"Metadata":{"a":null}}'),
    ("InfoResponse", '{"providers":[{"id":7,"name":"n","surfaces":["a",8,null,"b"]},3,null,{"id":"z","surfaces":["q"]}],"version":"1"}'),
    ("ErrorResponse", '{"error":"text"}'),
    ("ErrorResponse", '{"error":{"message":"m","code":"404"}}'),
    *(("ErrorResponse", f'{{"error":{{"code":{number},"message":"m"}}}}') for number in ("1.0", "1e3", "-0", "9223372036854775807",
                                                                                       "9223372036854775808", "true", "null")),
    *(("Authorization", f'{{"Interval":{span},"UserCode":"AB"}}') for span in ("5000000000", "5e9", "5000000000.0", '"5s"', "null", "-1000")),
    # ------------------------------------------------------------------------------------ times and support: the reading ends
    *(("RefreshResponse", f'{{"error":"e","record":{{"AccessToken":"a","Expiry":{time},"AccountID":"late"}},"terminal":true}}') for time in (
        '""', "7", "true", "{}", "null", '"0001-01-01T00:00:00Z"', '"2026-01-02T03:04:05Z"', '"2026-01-02T03:04:05.120+00:00"',
        '"2026-01-02T03:04:05.000000Z"', '"2026-01-02t03:04:05z"', '"2026-01-02 03:04:05Z"', '"2026-02-30T00:00:00Z"', '"2026-01-02"',
        '"2026-01-02T03:04:60Z"', '"2026-01-02T24:00:00Z"', '"2026-01-02T03:04:05"',
        '"2026-01-02T03:04:05+0100"', '"9999-12-31T23:59:59Z"',
    )),
    *(("ModelInfo", (f'{{"id":"m","capabilities":{{"operations":{{"chat":"supported","image":{value},"video":"supported"}},"tools":"supported"}},'
       f'"vendor":"late"}}')) for value in ('"unknown"', '"unsupported"', '"Supported"', '""', "null", "true", "1", "{}")),
    ("ModelInfo", '{"capabilities":{"tools":7,"schema_version":"x"},"vendor":"late"}'),
    ("ModelInfo", '{"capabilities":{"schema_version":"x","tools":"supported"},"vendor":"late"}'),
    ("ModelInfo", '{"capabilities":null,"legacy_capabilities":{},"tags":[],"free":false,"created":1.5,"vendor":"late"}'),
    ("ModelInfo", '{"capabilities":{"freshness":{"discovered_at":"","verified_at":null},"limits":{"context_tokens":1}},"vendor":"late"}'),
    ("ModelInfo", '{"capabilities":{"freshness":{"verified_at":null,"expires_at":"0001-01-01T00:00:00Z"},"limits":{"context_tokens":null}}}'),
]  # fmt: skip
