"""How user code is declared: channels, routers, actors, and what an enqueue hands on."""
